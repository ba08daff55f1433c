/**
 * Arrow messages whose bytes stand for far more than they are: columns, rows and values that share them. Each of these
 * took the thread from others for seconds to minutes, or all memory of the process.
 */
import { expect, it } from "vitest";

import { BatchValues } from "../../src/query/arrow/parameter-values.js";
import { type ReadColumn, type ReadField, readMessage } from "../../src/wire/flight/flight-arrow-read.js";

const none = new Uint8Array(0);
const utf8 = { kind: "utf8", layout: "offsets32" } as const;
const int8 = { kind: "int", bits: 8, signed: true } as const;
const tooLong = expect.objectContaining({ code: "PAYLOAD_TOO_LARGE" }) as Error;

/** A schema of so many columns that are one and the same field: of 16 bytes, with a name and pairs of metadata. */
function schemaOf(columns: number, name: string, pairs: number): Uint8Array {
  const buffer = Buffer.alloc(2000 + (columns + pairs) * 4 + name.length);
  let end = 4;
  const take = (bytes: number): number => {
    const at = (end + 7) & ~7;
    end = at + bytes;
    return at;
  };
  const refer = (place: number, to: number): void => {
    buffer.writeUInt32LE(to - place, place);
  };
  /** A table of eight bytes a field, all of them present. @returns the places of its fields, behind its own */
  const table = (fields: number): number[] => {
    const vtable = take(4 + fields * 2);
    const at = take(4 + fields * 8);
    buffer.writeUInt16LE(4 + fields * 2, vtable);
    buffer.writeInt32LE(at - vtable, at);
    const places = Array.from({ length: fields }, (_, i) => 4 + i * 8);
    for (const [i, place] of places.entries()) {
      buffer.writeUInt16LE(place, vtable + 4 + i * 2);
    }
    return [at, ...places.map((place) => at + place)];
  };
  const vector = (place: number, length: number, itemBytes: number): number => {
    const at = take(4 + length * itemBytes);
    buffer.writeUInt32LE(length, at);
    refer(place, at);
    return at + 4;
  };
  const [message = 0, , kind = 0, header = 0] = table(3);
  refer(0, message);
  buffer.writeUInt8(1, kind);
  const [schema = 0, , fieldsAt = 0] = table(2);
  refer(header, schema);
  const fields = vector(fieldsAt, columns, 4);
  const vtable = take(18);
  const field = take(40);
  buffer.writeInt32LE(field - vtable, field);
  // Name, type, and metadata; the others are absent.
  for (const [i, word] of [18, 40, 4, 0, 8, 12, 0, 0, 16].entries()) {
    buffer.writeUInt16LE(word, vtable + i * 2);
  }
  buffer.writeUInt8(15, field + 8); // FixedSizeBinary
  const [type = 0, width = 0] = table(1);
  refer(field + 12, type);
  buffer.writeInt32LE(16, width);
  buffer.write(name, vector(field + 4, name.length, 1));
  const metadata = vector(field + 16, pairs, 4);
  const [of = 0, ...texts] = table(2);
  for (const place of texts) {
    vector(place, 0, 1);
  }
  for (let i = 0; i < columns; i++) {
    refer(fields + i * 4, field);
  }
  for (let i = 0; i < pairs; i++) {
    refer(metadata + i * 4, of);
  }
  return buffer.subarray(0, end);
}

const column = (rows: number, ...buffers: Uint8Array[]): ReadColumn => ({ rows, buffers, items: null });

it("reads no name and no metadata that thousands of columns share", () => {
  expect(readMessage(schemaOf(2000, "n", 100), none, [])).toMatchObject({ fields: { length: 2000 } });
  // 2 GB of names.
  expect(() => readMessage(schemaOf(2000, "n".repeat(1_000_000), 0), none, [])).toThrow(/name takes more than 1000/u);
  expect(() => readMessage(schemaOf(2000, "n", 200_000), none, [])).toThrow(/more than 100 pairs/u);
});

it("finds values of a dictionary that came in thousands of parts, of which most are empty", () => {
  const indices = { dictionaryId: 0, type: int8 };
  const fields = Array.from({ length: 500 }, (): ReadField => ({ name: "v", type: utf8, indices }));
  const values = new BatchValues(fields, 1 << 30);
  const part = (text: string): void => {
    const offsets = new Uint8Array(Int32Array.of(0, text.length).buffer);
    const rows = text === "" ? 0 : 1;
    values.addDictionary({
      kind: "dictionary",
      id: 0,
      delta: true,
      values: column(rows, none, offsets, Buffer.from(text)),
    });
  };
  for (let i = 0; i < 50_000; i++) {
    part(i === 100 ? "first" : "");
  }
  part("second");
  const places = Uint8Array.from({ length: 1000 }, (_, i) => i % 2);
  values.addBatch({ kind: "batch", rows: 1000, columns: fields.map(() => column(1000, none, places)) });
  expect(values.sets[998]?.[499]).toEqual({ type: "VARCHAR", text: "first" });
  expect(values.sets[999]?.[499]).toEqual({ type: "VARCHAR", text: "second" });
  const beyond = column(1, none, Uint8Array.of(2));
  expect(() => {
    values.addBatch({ kind: "batch", rows: 1, columns: fields.map(() => beyond) });
  }).toThrow(/does not have/u);
});

it("takes no more values than a handle holds, also of those that have no text", () => {
  const fields = Array.from({ length: 2000 }, (): ReadField => ({ name: "v", type: { kind: "null" }, indices: null }));
  const values = new BatchValues(fields, 1 << 20);
  expect(() => {
    values.addBatch({ kind: "batch", rows: 1000, columns: fields.map(() => column(1000)) });
  }).toThrow(tooLong);
});

it("takes no list whose values refer to one long text again and again", () => {
  const item = { kind: "utf8", layout: "views" } as const;
  const field: ReadField = { name: "v", type: { kind: "list", layout: "offsets32", item }, indices: null };
  const count = 50_000;
  const text = Buffer.alloc(500_000, "x");
  const view = Uint8Array.of(...new Uint8Array(Int32Array.of(text.length, 0, 0, 0).buffer));
  const views = Buffer.concat(Array.from({ length: count }, () => view));
  const list: ReadColumn = {
    ...column(1, none, new Uint8Array(Int32Array.of(0, count).buffer)),
    items: column(count, none, views, text),
  };
  const values = new BatchValues([field], 1 << 20);
  // 25 GB of text.
  expect(() => {
    values.addBatch({ kind: "batch", rows: 1, columns: [list] });
  }).toThrow(tooLong);
});
