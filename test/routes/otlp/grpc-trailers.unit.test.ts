/** Errors of OTLP/HTTP as trailers of gRPC. */
import { describe, expect, test } from "vitest";

import { errorTrailers, percentEncoded } from "../../../src/routes/otlp/grpc/trailers.js";
import { encodeRpcStatus } from "../../../src/wire/otlp/rpc-status.js";

describe("grpc-message", () => {
  test.each([
    ["plain text, with punctuation!", "plain text, with punctuation!"],
    ["100%", "100%25"],
    ["naïve ☃", "na%C3%AFve %E2%98%83"],
    ["line\r\nbreak\u0000\u007f", "line%0D%0Abreak%00%7F"],
    ["half \uD83D", "half %EF%BF%BD"],
  ])("%j is written as %j", (text, written) => {
    expect(percentEncoded(text)).toBe(written);
  });
});

describe("an error", () => {
  const status = (code: number, message: string): Uint8Array => encodeRpcStatus("protobuf", code, message);

  test("keeps code and text, and says nothing of a retry that does not help", () => {
    expect(errorTrailers(413, status(8, "the body is larger than 5 bytes"), undefined)).toEqual({
      "grpc-status": 8,
      "grpc-message": "the body is larger than 5 bytes",
    });
  });

  test("carries RetryInfo with the seconds of Retry-After, without padding", () => {
    const trailers = errorTrailers(503, status(14, "later"), 7);
    const details = String(trailers["grpc-status-details-bin"]);
    expect(details).toMatch(/^[A-Za-z0-9+/]+$/);
    expect(Buffer.from(details, "base64").toString("latin1")).toContain("type.googleapis.com/google.rpc.RetryInfo");
    // The end of it: RetryInfo.retry_delay (1), Duration.seconds (1) = 7.
    expect([...Buffer.from(details, "base64").subarray(-4)]).toEqual([0x0a, 2, 0x08, 7]);
  });

  test("of a coding that is not known is UNIMPLEMENTED, as gRPC has it", () => {
    expect(errorTrailers(415, status(3, "no"), undefined)["grpc-status"]).toBe(12);
  });

  test("of any length stays within what clients take for header fields", () => {
    const trailers = errorTrailers(400, status(3, "☃".repeat(100_000)), 1);
    expect(String(trailers["grpc-message"]).length + String(trailers["grpc-status-details-bin"]).length).toBeLessThan(
      8192,
    );
  });
});
