/**
 * OTLP request bodies for the load generator, built before any clock runs. Messages,
 * attributes, ids and times vary from record to record, or compression and dictionaries would flatter
 * the result. Every body carries one place (`patchOffset`, a time) that the sender overwrites
 * with a counter: the service stores equal bytes once, so each request has to differ.
 */
import { decodePlain } from "../../test/helpers/otlp/otlp-proto.js";
import { seededRandom } from "../../test/helpers/seeded-random.js";

/** What can be sent. */
export const loadSignals = ["logs", "metrics", "traces"] as const;
export type LoadSignal = (typeof loadSignals)[number];

/** How bodies are written. */
export const loadFormats = ["protobuf", "json"] as const;
export type LoadFormat = (typeof loadFormats)[number];

/** Content codings of bodies. */
export const loadEncodings = ["identity", "gzip", "zstd"] as const;
export type LoadEncoding = (typeof loadEncodings)[number];

/** One prebuilt body and where its patchable time is: 8 bytes of protobuf, 19 digits of JSON. */
export interface Payload {
  readonly format: LoadFormat;
  readonly body: Buffer;
  readonly patchOffset: number;
  /** Records, points or spans inside. */
  readonly records: number;
}

/** Minimal protobuf writer: parts are collected and joined once per message. */
class Message {
  readonly #parts: Buffer[] = [];
  byteLength = 0;

  varint(field: number, value: number): this {
    return this.#push(encodeVarint(field << 3), encodeVarint(value));
  }

  fixed64(field: number, value: bigint): this {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(value);
    return this.#push(encodeVarint((field << 3) | 1), bytes);
  }

  double(field: number, value: number): this {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(value);
    return this.#push(encodeVarint((field << 3) | 1), bytes);
  }

  fixed32(field: number, value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return this.#push(encodeVarint((field << 3) | 5), bytes);
  }

  bytes(field: number, value: Buffer): this {
    return this.#push(encodeVarint((field << 3) | 2), encodeVarint(value.length), value);
  }

  string(field: number, value: string): this {
    return this.bytes(field, Buffer.from(value));
  }

  message(field: number, value: Message): this {
    return this.bytes(field, value.finish());
  }

  finish(): Buffer {
    return Buffer.concat(this.#parts, this.byteLength);
  }

  #push(...parts: Buffer[]): this {
    for (const part of parts) {
      this.#parts.push(part);
      this.byteLength += part.length;
    }
    return this;
  }
}

function encodeVarint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest % 128) | 0x80);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

const stringValue = (value: string): Message => new Message().string(1, value);
const intValue = (value: number): Message => new Message().varint(3, value);
const doubleValue = (value: number): Message => new Message().double(4, value);
const keyValue = (key: string, value: Message): Message => new Message().string(1, key).message(2, value);

const words =
  "request handled user cache miss database connection timeout retry order payment shipped item queue worker started finished error warning upstream token session checkout inventory refund gateway".split(
    " ",
  );
const routes = ["/api/orders", "/api/cart", "/api/users/{id}", "/login", "/search", "/checkout"];
const methods = ["GET", "POST", "PUT", "DELETE"];

/** Marks the patchable time; replaced by `patchOffset` bytes once the body is joined. */
const patchMarker = 0xfeed_face_cafe_f00dn;

interface Source {
  readonly random: () => number;
  readonly startUnixNano: bigint;
}

const pick = <T>(source: Source, values: readonly T[]): T => values[Math.floor(source.random() * values.length)] as T;

function randomBytes(source: Source, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) {
    bytes[i] = Math.floor(source.random() * 256);
  }
  if (bytes[0] === 0) {
    bytes[0] = 1;
  }
  return bytes;
}

function timeOf(source: Source, index: number): bigint {
  return source.startUnixNano + BigInt(index) * 1_000_000n + BigInt(Math.floor(source.random() * 1e6));
}

function sentence(source: Source, count: number): string {
  return Array.from({ length: count }, () => pick(source, words)).join(" ");
}

const identifier = (source: Source): string =>
  Math.floor(source.random() * 2 ** 48)
    .toString(16)
    .padStart(12, "0");

function requestAttributes(source: Source, message: Message, field: number): void {
  message
    .message(field, keyValue("http.request.method", stringValue(pick(source, methods))))
    .message(field, keyValue("http.route", stringValue(pick(source, routes))))
    .message(field, keyValue("http.response.status_code", intValue(pick(source, [200, 200, 201, 404, 500]))))
    .message(field, keyValue("user.id", stringValue(identifier(source))));
}

/** A log record of about 300 bytes; half of them belong to a trace. */
function logRecord(source: Source, index: number, patch: boolean): Message {
  const record = new Message()
    .fixed64(1, patch ? patchMarker : timeOf(source, index))
    .fixed64(11, timeOf(source, index))
    .varint(2, pick(source, [9, 9, 9, 13, 17]))
    .string(3, pick(source, ["INFO", "INFO", "WARN", "ERROR"]))
    .message(5, stringValue(`${sentence(source, 9)} id=${identifier(source)}`));
  requestAttributes(source, record, 6);
  // A duration in milliseconds off a nanosecond clock.
  record.message(6, keyValue("duration_ms", doubleValue(Math.round(source.random() * 1e9) / 1e6)));
  record.message(6, keyValue("code.function", stringValue(pick(source, words))));
  if (source.random() < 0.5) {
    record.bytes(9, randomBytes(source, 16)).bytes(10, randomBytes(source, 8)).fixed32(8, 1);
  }
  return record;
}

function span(source: Source, index: number, patch: boolean): Message {
  const start = timeOf(source, index);
  const message = new Message()
    .bytes(1, randomBytes(source, 16))
    .bytes(2, randomBytes(source, 8))
    .bytes(4, randomBytes(source, 8))
    .string(5, `${pick(source, methods)} ${pick(source, routes)}`)
    .varint(6, 1 + Math.floor(source.random() * 5))
    .fixed64(7, patch ? patchMarker : start)
    .fixed64(8, start + BigInt(Math.floor(source.random() * 5e8)));
  requestAttributes(source, message, 9);
  if (source.random() < 0.1) {
    message.message(
      11,
      new Message()
        .fixed64(1, start)
        .string(2, "exception")
        .message(3, keyValue("exception.message", stringValue(sentence(source, 5)))),
    );
  }
  if (source.random() < 0.05) {
    message.message(13, new Message().bytes(1, randomBytes(source, 16)).bytes(2, randomBytes(source, 8)));
  }
  return message.message(15, new Message().varint(3, pick(source, [0, 0, 0, 1, 2])));
}

/** Twenty points a metric, half of them sums of integers and half gauges of doubles. */
const pointsPerMetric = 20;

function numberPoint(source: Source, index: number, integer: boolean, patch: boolean): Message {
  const point = new Message().fixed64(2, source.startUnixNano).fixed64(3, patch ? patchMarker : timeOf(source, index));
  if (integer) {
    point.fixed64(6, BigInt(Math.floor(source.random() * 1e9)));
  } else {
    point.double(4, source.random() * 1000);
  }
  requestAttributes(source, point, 7);
  return point;
}

function metric(source: Source, index: number, points: number): Message {
  const integer = index % 2 === 0;
  const data = new Message();
  for (let i = 0; i < points; i++) {
    data.message(1, numberPoint(source, index * pointsPerMetric + i, integer, index === 0 && i === 0));
  }
  if (integer) {
    data.varint(2, 2).varint(3, 1);
  }
  return new Message()
    .string(1, `app.${pick(source, words)}.${pick(source, words)}.${index}`)
    .string(2, "what the application counts here")
    .string(3, integer ? "1" : "ms")
    .message(integer ? 7 : 5, data);
}

/** As many digits as a time has until the year 2286. */
const patchDigits = "1".repeat(19);

/** A body as OTLP/JSON: ids are hex digits there. */
function jsonOf(signal: LoadSignal, body: Buffer): string {
  const message = decodePlain(({ logs: 1, metrics: 2, traces: 3 } as const)[signal], body);
  const text = JSON.stringify(message, (key, value: unknown) =>
    Array.isArray(value) && /^(?:trace|span|parentSpan)Id$/u.test(key)
      ? Buffer.from(value as number[]).toString("hex")
      : value,
  );
  return text.replace(String(patchMarker), patchDigits);
}

/** Writes the patchable time of a copy of the body. */
export function patch({ format, patchOffset }: Payload, body: Buffer, time: bigint): void {
  if (format === "json") {
    body.write(String(time), patchOffset, "latin1");
  } else {
    body.writeBigUInt64LE(time, patchOffset);
  }
}

/** One request of `records` records from one of a few processes. */
export function buildPayload(
  signal: LoadSignal,
  records: number,
  seed: number,
  format: LoadFormat = "protobuf",
): Payload {
  const source: Source = {
    random: seededRandom(seed),
    startUnixNano: 1_790_000_000_000_000_000n + BigInt(seed) * 1_000_000_000n,
  };
  const resource = new Message();
  for (const [key, value] of [
    ["service.name", `checkout-${seed % 8}`],
    ["service.namespace", "shop"],
    ["service.instance.id", `instance-${seed % 8}`],
    ["service.version", "1.4.2"],
    ["host.name", `node-${seed % 8}.example`],
    ["telemetry.sdk.language", "nodejs"],
  ] as const) {
    resource.message(1, keyValue(key, stringValue(value)));
  }
  const scope = new Message().string(1, "shop.checkout").string(2, "2.1.0");
  const scoped = new Message().message(1, scope);
  if (signal === "metrics") {
    for (let left = records, index = 0; left > 0; left -= pointsPerMetric, index++) {
      scoped.message(2, metric(source, index, Math.min(left, pointsPerMetric)));
    }
  } else {
    const record = signal === "logs" ? logRecord : span;
    for (let i = 0; i < records; i++) {
      scoped.message(2, record(source, i, i === 0));
    }
  }
  const encoded = new Message().message(1, new Message().message(1, resource).message(2, scoped)).finish();
  const body = format === "json" ? Buffer.from(jsonOf(signal, encoded)) : encoded;
  const marker = Buffer.alloc(8);
  marker.writeBigUInt64LE(patchMarker);
  const patchOffset = body.indexOf(format === "json" ? patchDigits : marker);
  if (patchOffset < 0) {
    throw new Error("the payload lost its patchable time");
  }
  return { format, body, patchOffset, records };
}
