/** Short ways to write OTLP bytes by hand, right or wrong. */
import { ProtobufWriter } from "../../../src/wire/protobuf-writer.js";
import { encodePlain, type PlainMessage } from "./otlp-proto.js";

/** A length-delimited field. */
export function field(number: number, ...parts: readonly (Uint8Array | readonly number[])[]): Uint8Array {
  const w = new ProtobufWriter();
  w.bytesField(number, Buffer.concat(parts.map((part) => Uint8Array.from(part))));
  return w.output().slice();
}

/** Bytes one after the other. */
export function join(...parts: readonly (Uint8Array | readonly number[])[]): Uint8Array {
  return Buffer.concat(parts.map((part) => Uint8Array.from(part)));
}

/** Text as bytes. */
export function utf8(text: string): Uint8Array {
  return Buffer.from(text);
}

/** A logs request of one resource and one scope that holds the given LogRecord bodies. */
export function logsRequest(...records: readonly Uint8Array[]): Uint8Array {
  return field(1, field(2, ...records.map((record) => field(2, record))));
}

/** A traces request around the given Span bodies. */
export function tracesRequest(...spans: readonly Uint8Array[]): Uint8Array {
  return logsRequest(...spans);
}

/** A metrics request around the given Metric bodies. */
export function metricsRequest(...metrics: readonly Uint8Array[]): Uint8Array {
  return logsRequest(...metrics);
}

/** One log record as a whole request, encoded by protobufjs. */
export function oneLog(record: PlainMessage, resource: PlainMessage = {}): Uint8Array {
  return encodePlain(1, { resourceLogs: [{ resource, scopeLogs: [{ logRecords: [record] }] }] });
}

/** Lines of text that compress, the same every time. */
export function sampleText(lines: number): Buffer {
  return Buffer.from(
    Array.from(
      { length: lines },
      (_, i) => `GET /api/items/${(i * 7919) % 997} took ${(i * 104729) % 5003} ms for user-${i % 13}\n`,
    ).join(""),
  );
}
