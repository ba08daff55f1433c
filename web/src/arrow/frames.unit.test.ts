import { expect, it } from "vitest";

import { FrameReader } from "./frames.js";

function frame(kind: string, payload: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(5 + payload.length);
  bytes[0] = kind.charCodeAt(0);
  new DataView(bytes.buffer).setUint32(1, payload.length, true);
  bytes.set(payload, 5);
  return bytes;
}

const stream = Uint8Array.from(
  [frame("S", [1, 2, 3]), frame("B", []), frame("B", [4]), frame("D", [5, 6])].flatMap((each) => [...each]),
);

it("finds the same frames however the stream was cut", () => {
  for (let size = 1; size <= stream.length; size++) {
    const reader = new FrameReader();
    const found: string[] = [];
    for (let at = 0; at < stream.length; at += size) {
      for (const { kind, payload } of reader.push(stream.subarray(at, at + size))) {
        found.push(`${kind}${payload.join("")}`);
      }
    }
    expect(found).toEqual(["S123", "B", "B4", "D56"]);
  }
});

it("gives each payload memory of its own, which another thread can take", () => {
  const [first] = new FrameReader().push(stream);
  expect(first?.payload.byteOffset).toBe(0);
  expect(first?.payload.buffer.byteLength).toBe(3);
});

it("gives nothing of a frame before its end", () => {
  const reader = new FrameReader();
  expect([...reader.push(stream.subarray(0, 7))]).toEqual([]);
  expect([...reader.push(stream.subarray(7, 8))]).toEqual([{ kind: "S", payload: Uint8Array.of(1, 2, 3) }]);
});

it("refuses what is no such stream", () => {
  expect(() => [...new FrameReader().push(new TextEncoder().encode("<!doctype html>"))]).toThrow("no stream of frames");
  expect(() => [...new FrameReader().push(Uint8Array.of(66, 255, 255, 255, 255))]).toThrow("no stream of frames");
});
