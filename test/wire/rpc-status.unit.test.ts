/** Bodies of OTLP responses, read by an implementation that nobody here wrote. */
import protobuf from "protobufjs";
import { describe, expect, test } from "vitest";

import { encodeExportResponse, encodeRpcStatus } from "../../src/wire/otlp/rpc-status.js";

const { root } = protobuf.parse(
  `syntax = "proto3";
   message Status { int32 code = 1; string message = 2; }
   message PartialSuccess { int64 rejected = 1; string error_message = 2; }
   message Response { PartialSuccess partial_success = 1; }`,
  { keepCase: true },
);
const statusType = root.lookupType("Status");
const responseType = root.lookupType("Response");

describe("google.rpc.Status", () => {
  test.each([
    [3, "bad"],
    [0, ""],
    [16, "naïve ☃ ".repeat(50)],
  ])("code %i survives in both encodings", (code, message) => {
    const decoded = statusType.toObject(statusType.decode(encodeRpcStatus("protobuf", code, message)), {
      defaults: true,
    });
    expect(decoded).toEqual({ code, message });
    expect(JSON.parse(Buffer.from(encodeRpcStatus("json", code, message)).toString())).toEqual({
      code,
      message,
    });
  });
});

describe("Export*ServiceResponse", () => {
  test("is empty when there is nothing to say", () => {
    expect(encodeExportResponse("protobuf", 1, 0, null)).toHaveLength(0);
    expect(Buffer.from(encodeExportResponse("json", 1, 0, null)).toString()).toBe("{}");
  });

  test.each([
    [1, 1, "rejectedLogRecords"],
    [2, 300, "rejectedDataPoints"],
    [3, 2 ** 40 + 5, "rejectedSpans"],
  ] as const)("signal %i carries the count and the reason", (signal, rejected, field) => {
    const reason = "trace_id of a wrong length";
    const decoded = responseType.toObject(
      responseType.decode(encodeExportResponse("protobuf", signal, rejected, reason)),
      { longs: Number },
    );
    expect(decoded).toEqual({ partial_success: { rejected, error_message: reason } });
    expect(JSON.parse(Buffer.from(encodeExportResponse("json", signal, rejected, reason)).toString())).toEqual({
      partialSuccess: { [field]: String(rejected), errorMessage: reason },
    });
  });

  test("a warning without a rejection has no count", () => {
    expect(JSON.parse(Buffer.from(encodeExportResponse("json", 1, 0, "careful")).toString())).toEqual({
      partialSuccess: { errorMessage: "careful" },
    });
  });
});
