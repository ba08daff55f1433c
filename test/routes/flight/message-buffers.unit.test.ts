import { describe, expect, it } from "vitest";

import { type FramedMessage, MessageBuffers } from "../../../src/routes/flight/message-buffers.js";

const large = (fill: number): Buffer => Buffer.alloc(100_000, fill);

/** Tells that the transport is done with a message. */
function sent(message: Buffer | FramedMessage): void {
  if ("framed" in message) {
    message.sent();
  }
}

describe("message buffers", () => {
  it("put gRPC's prefix in front of a copy", () => {
    const message = large(7);
    const framed = new MessageBuffers().framed(message);
    message.fill(8);
    expect([framed[0], framed.readUInt32BE(1), framed.length]).toEqual([0, 100_000, 100_005]);
    expect(framed.subarray(5).equals(large(7))).toBe(true);
    expect(framed).toHaveProperty("framed", true);
  });

  it("use memory again after a message was sent, and only then", () => {
    const buffers = new MessageBuffers();
    const first = buffers.framed(large(1));
    const second = buffers.framed(large(2));
    expect(second.buffer).not.toBe(first.buffer);
    sent(first);
    expect(buffers.framed(large(3)).buffer).toBe(first.buffer);
    expect(second[5]).toBe(2);
  });

  it("leave small and huge messages to grpc-js, and keep no more than a few buffers", () => {
    const buffers = new MessageBuffers();
    for (const message of [Buffer.alloc(1000), Buffer.alloc(3 << 20)]) {
      expect(buffers.framed(message)).toBe(message);
      sent(message);
    }
    const framed = Array.from({ length: 20 }, (_, i) => buffers.framed(large(i)));
    for (const message of framed) {
      sent(message);
    }
    const memory = new Set(framed.map(({ buffer }) => buffer));
    const again = Array.from({ length: 20 }, (_, i) => buffers.framed(large(i)));
    expect(again.filter(({ buffer }) => memory.has(buffer))).toHaveLength(8);
  });
});
