/** Small OTLP requests, each with a mark that finds its records again. */
import { randomUUID } from "node:crypto";

/** The body of a JSON logs request: one resource, `count` records whose `msg` is `<mark> <n>`. */
export function jsonLogs(mark: string, count = 1, service = "test"): Buffer {
  return Buffer.from(
    JSON.stringify({
      resourceLogs: [
        {
          resource: { attributes: [attribute("service.name", service)] },
          scopeLogs: [
            {
              scope: { name: "test" },
              logRecords: Array.from({ length: count }, (_, n) => ({
                timeUnixNano: String(BigInt(Date.now()) * 1_000_000n + BigInt(n)),
                severityNumber: 9,
                body: { stringValue: `${mark} ${n}` },
              })),
            },
          ],
        },
      ],
    }),
  );
}

/** The same as protobuf. */
export function protobufLogs(mark: string, count = 1, service = "test"): Buffer {
  const records = Array.from({ length: count }, (_, n) =>
    message(2, [
      fixed64(1, BigInt(Date.now()) * 1_000_000n + BigInt(n)),
      varintField(2, 9),
      message(5, [text(1, `${mark} ${n}`)]),
    ]),
  );
  const scope = message(1, [text(1, "test")]);
  const resource = message(1, [message(1, [text(1, "service.name"), message(2, [text(1, service)])])]);
  return message(1, [resource, message(2, [scope, ...records])]);
}

/** One span with a trace id of the given bytes, as protobuf. */
export function protobufSpan(name: string, traceId: Buffer): Buffer {
  const span = message(2, [
    bytes(1, traceId),
    bytes(2, Buffer.alloc(8, 7)),
    text(5, name),
    fixed64(7, 1_700_000_000_000_000_000n),
    fixed64(8, 1_700_000_000_100_000_000n),
  ]);
  const resource = message(1, [message(1, [text(1, "service.name"), message(2, [text(1, "test")])])]);
  return message(1, [resource, message(2, [span])]);
}

/** A mark that no other test uses. */
export function freshMark(): string {
  return randomUUID();
}

function attribute(key: string, value: string): unknown {
  return { key, value: { stringValue: value } };
}

/** A length-delimited field (protobuf.dev, "Encoding"). */
export function bytes(field: number, value: Buffer): Buffer {
  return Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);
}

/** A nested message of already encoded fields. */
export function message(field: number, fields: readonly Buffer[]): Buffer {
  return bytes(field, Buffer.concat(fields));
}

export function text(field: number, value: string): Buffer {
  return bytes(field, Buffer.from(value));
}

export function fixed64(field: number, value: bigint): Buffer {
  const out = Buffer.alloc(9);
  out[0] = (field << 3) | 1;
  out.writeBigUInt64LE(value, 1);
  return out;
}

export function varintField(field: number, value: number): Buffer {
  return Buffer.concat([varint(field << 3), varint(value)]);
}

function varint(value: number): Buffer {
  const out: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    out.push((rest % 128) | 0x80);
    rest = Math.floor(rest / 128);
  }
  out.push(rest);
  return Buffer.from(out);
}
