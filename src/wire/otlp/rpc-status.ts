/**
 * Bodies of OTLP/HTTP responses: `google.rpc.Status` for errors and `Export*ServiceResponse` for
 * successes, in protobuf and in the protobuf-JSON mapping (OTLP 1.x, "OTLP/HTTP Response"). OTLP/gRPC has the same
 * messages, its Status in a trailer.
 */
import { bytesField, decodeText, eachField, varintField } from "../protobuf-fields.js";

/** Encoding of an OTLP request, and so of its response. */
export type OtlpFormat = "protobuf" | "json";

/** 1 logs, 2 metrics, 3 traces. */
export type OtlpSignal = 1 | 2 | 3;

/** The content type that belongs to a format. */
export function otlpContentType(format: OtlpFormat): string {
  return format === "protobuf" ? "application/x-protobuf" : "application/json";
}

/** What the count of rejected records is called in the JSON mapping, by signal. */
const rejectedFieldNames = {
  1: "rejectedLogRecords",
  2: "rejectedDataPoints",
  3: "rejectedSpans",
} as const;

/**
 * A `google.rpc.Status` without details.
 * @param code gRPC status code (field 1); `message` is public text (field 2).
 */
export function encodeRpcStatus(format: OtlpFormat, code: number, message: string): Uint8Array {
  if (format === "json") {
    return Buffer.from(JSON.stringify({ code, message }));
  }
  return Buffer.concat([numberField(1, code), textField(2, message)]);
}

/** Reads a `google.rpc.Status` without its details. @throws ServiceError BAD_REQUEST */
export function decodeRpcStatus(status: Uint8Array): { readonly code: number; readonly message: string } {
  let code = 0;
  let message = "";
  eachField(
    status,
    (field, bytes) => {
      if (field === 2) {
        message = decodeText(bytes);
      }
    },
    (field, number) => {
      if (field === 1) {
        code = number;
      }
    },
  );
  return { code, message };
}

/** A `google.rpc.Status` with `google.rpc.RetryInfo`: without it no sender repeats what it is refused. */
export function encodeRetryStatus(code: number, message: string, retryAfterSeconds: number): Uint8Array {
  // A Duration, of whole seconds, in field 1.
  const retryInfo = bytesField(1, numberField(1, retryAfterSeconds));
  const details = Buffer.concat([textField(1, "type.googleapis.com/google.rpc.RetryInfo"), bytesField(2, retryInfo)]);
  return Buffer.concat([encodeRpcStatus("protobuf", code, message), bytesField(3, details)]);
}

/**
 * The response to an accepted request. It is the empty message when nothing was rejected and there
 * is nothing to say, else it carries `partial_success` (field 1 of every Export*ServiceResponse).
 * @param rejected records that were not stored; `reason` is `error_message`, also a warning when none was rejected.
 */
export function encodeExportResponse(
  format: OtlpFormat,
  signal: OtlpSignal,
  rejected: number,
  reason: string | null,
): Uint8Array {
  const silent = rejected === 0 && reason === null;
  if (format === "json") {
    const partialSuccess = {
      // int64 is a string in the JSON mapping.
      ...(rejected === 0 ? {} : { [rejectedFieldNames[signal]]: String(rejected) }),
      ...(reason === null ? {} : { errorMessage: reason }),
    };
    return Buffer.from(JSON.stringify(silent ? {} : { partialSuccess }));
  }
  if (silent) {
    return new Uint8Array(0);
  }
  return bytesField(1, Buffer.concat([numberField(1, rejected), textField(2, reason ?? "")]));
}

/** proto3: a field with its default value is not written. */
function numberField(field: number, value: number): Buffer {
  return value === 0 ? Buffer.alloc(0) : varintField(field, BigInt(value));
}

function textField(field: number, value: string): Buffer {
  return value === "" ? Buffer.alloc(0) : bytesField(field, value);
}
