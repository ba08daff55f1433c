/** Batches that are shortened, by another reader of Arrow. */
import {
  Bool,
  type DataType,
  DenseUnion,
  Dictionary,
  Field,
  FixedSizeList,
  Float64,
  Int32,
  Int64,
  List,
  Map_,
  MessageReader,
  Null,
  Schema,
  Struct,
  Table,
  tableFromIPC,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from "apache-arrow";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { ServiceError } from "../../src/runtime/errors.js";

import { shortenBatch } from "../../src/wire/flight/flight-arrow-cut.js";
import { encapsulated } from "../../src/wire/web/query-frames.js";

interface Message {
  readonly kind: number;
  readonly header: Uint8Array;
  readonly body: Uint8Array;
}

/** The messages of an IPC stream. */
function messagesOf(stream: Uint8Array): Message[] {
  const reader = new MessageReader(stream);
  const messages: Message[] = [];
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength);
  for (let at = 0; at + 8 <= stream.length && view.getInt32(at + 4, true) > 0;) {
    const headerBytes = view.getInt32(at + 4, true);
    const message = reader.readMessage();
    if (message === null) {
      break;
    }
    const bodyAt = at + 8 + headerBytes;
    const header = stream.slice(at + 8, bodyAt);
    const body = stream.slice(bodyAt, bodyAt + message.bodyLength);
    messages.push({ kind: message.headerType, header, body });
    at = bodyAt + message.bodyLength;
    reader.readMessageBody(message.bodyLength);
  }
  return messages;
}

/** A column as plain values, its first rows only. */
function cut(values: readonly unknown[], type: DataType, rows: number): { rows: unknown[]; nulls: number } | null {
  const vector = vectorFromArray(values, type);
  const stream = tableToIPC(new Table({ a: vector, b: vector }), "stream");
  const messages = messagesOf(stream);
  const schema = messages[0];
  const last = messages.at(-1);
  if (schema === undefined || last === undefined) {
    throw new Error("no messages");
  }
  const header = shortenBatch(schema.header, last.header, last.body, rows);
  if (header === null) {
    return null;
  }
  const shortened = [...messages.slice(0, -1), { ...last, header }];
  const table = tableFromIPC(Buffer.concat(shortened.flatMap((message) => encapsulated(message.header, message.body))));
  expect(table.numRows).toBe(rows);
  const [a, b] = [table.getChild("a"), table.getChild("b")];
  expect(plain(a?.toArray())).toEqual(plain(b?.toArray()));
  return { rows: [...(a ?? [])].map((value) => plain(value)), nulls: a?.nullCount ?? -1 };
}

const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value ?? null, (_key, v: unknown) => (typeof v === "bigint" ? String(v) : v)));

const every = <T>(value: (i: number) => T): (T | null)[] =>
  Array.from({ length: 100 }, (_, i) => (i % 3 === 0 ? null : value(i)));
const item = (type: DataType): Field => new Field("item", type, true);
const members = new Struct([new Field("x", new Int32(), true), new Field("y", new Utf8(), true)]);

describe.each([
  ["whole numbers", every((i) => BigInt(i)), new Int64()],
  ["numbers", every((i) => i / 7), new Float64()],
  ["truths", every((i) => i % 2 === 0), new Bool()],
  ["texts", every((i) => "é".repeat(i)), new Utf8()],
  ["nothing", every(() => null), new Null()],
  ["lists", every((i) => Array.from({ length: i % 5 }, (_, k) => (k === 1 ? null : k))), new List(item(new Int32()))],
  ["lists of one length", every((i) => [i, null, i]), new FixedSizeList(3, item(new Int32()))],
  ["structures", every((i) => ({ x: i % 4 === 0 ? null : i, y: `t${i}` })), members],
  ["lists of structures", every((i) => [{ x: i, y: "a" }, null]), new List(new Field("item", members, true))],
  ["a dictionary", every((i) => `word ${i % 5}`), new Dictionary(new Utf8(), new Int32())],
])("a batch of %s", (_what, values, type) => {
  it.each([1, 2, 3, 8, 64, 99])("has its first %i rows, and counts their nulls", (rows) => {
    const whole = values.slice(0, rows);
    expect(cut(values, type, rows)).toEqual({
      rows: whole.map((value) => plain(value)),
      nulls: whole.filter((value) => value === null).length,
    });
  });
});

it("shortens maps, whose keys and values lie beside one another", () => {
  const entries = new Struct<{ key: Utf8; value: Int32 }>([
    new Field("key", new Utf8()),
    new Field("value", new Int32(), true),
  ]);
  const values = every((i) => new Map([[`k${i}`, i]]));
  expect(cut(values, new Map_(new Field("entries", entries)), 5)?.nulls).toBe(2);
});

it("leaves unions as they are", () => {
  const type = new DenseUnion([0], [new Field("i", new Int32())]);
  const [schema] = messagesOf(tableToIPC(new Table(new Schema([new Field("u", type)])), "stream"));
  expect(shortenBatch(schema?.header ?? Buffer.of(), Buffer.of(), Buffer.of(), 1)).toBe(null);
});

it("refuses what does not belong together", () => {
  const of = (columns: Record<string, unknown[]>): Message[] =>
    messagesOf(
      tableToIPC(
        new Table(
          Object.fromEntries(Object.entries(columns).map(([name, v]) => [name, vectorFromArray(v, new Int32())])),
        ),
        "stream",
      ),
    );
  const [wide] = of({ a: [1, 2], b: [1, 2] });
  const [, narrow] = of({ a: [1, 2] });
  expect(() => shortenBatch(wide?.header ?? Buffer.of(), narrow?.header ?? Buffer.of(), Buffer.of(), 1)).toThrow(
    "fewer columns",
  );
});

it("ends for whatever bytes, with a header or a refusal", () => {
  const vector = vectorFromArray(
    every((i) => [{ x: i, y: `t${i}` }, null]),
    new List(new Field("item", members, true)),
  );
  const [schema, batch] = messagesOf(tableToIPC(new Table({ a: vector }), "stream"));
  if (schema === undefined || batch === undefined) {
    throw new Error("no messages");
  }
  const change = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 8 });
  const changed = (bytes: Uint8Array, changes: readonly (readonly [number, number])[]): Uint8Array => {
    const copy = Uint8Array.from(bytes);
    for (const [at, value] of changes) {
      copy[at % copy.length] = value;
    }
    return copy;
  };
  let refused = 0;
  fc.assert(
    fc.property(change, change, fc.nat(200), (ofSchema, ofHeader, rows) => {
      try {
        shortenBatch(changed(schema.header, ofSchema), changed(batch.header, ofHeader), batch.body, rows);
      } catch (error) {
        refused++;
        if (!(error instanceof RangeError || (error instanceof ServiceError && error.code === "BAD_REQUEST"))) {
          throw error;
        }
      }
    }),
    { numRuns: 5000 },
  );
  expect(refused).toBeGreaterThan(0);
});
