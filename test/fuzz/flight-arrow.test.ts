/** Arrow messages that were bent: the reader takes them or refuses them, and always returns. */
import { Int32, Table, tableToIPC, Utf8, vectorFromArray } from "apache-arrow";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { valuesOfBatch } from "../../src/query/parameter-values.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { type ReadField, readMessage } from "../../src/wire/flight-arrow-read.js";

const ipc = tableToIPC(
  new Table({
    a: vectorFromArray([1, null, 3], new Int32()),
    b: vectorFromArray(["x", "yy", null], new Utf8()),
  }),
  "stream",
);

/** Header and body of the schema and of the batch. */
const [schema, batch] = split(ipc);

function split(bytes: Uint8Array): readonly (readonly [Uint8Array, Uint8Array])[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = 8 + view.getUint32(4, true);
  const second = end + 8 + view.getUint32(end + 4, true);
  return [
    [bytes.slice(8, end), new Uint8Array(0)],
    [bytes.slice(end + 8, second), bytes.slice(second)],
  ];
}

function read(header: Uint8Array, body: Uint8Array, fields: readonly ReadField[]): unknown {
  try {
    const message = readMessage(header, body, fields);
    if (message.kind === "schema") return message.fields;
    return message.rows > 1000 ? [] : valuesOfBatch(fields, message.columns, message.rows);
  } catch (error) {
    if (error instanceof ServiceError && error.code === "BAD_REQUEST") return null;
    throw error;
  }
}

const bent = (bytes: Uint8Array): fc.Arbitrary<Uint8Array> =>
  fc
    .tuple(
      fc.array(fc.tuple(fc.nat(Math.max(0, bytes.length - 1)), fc.integer({ min: 0, max: 255 })), {
        maxLength: 4,
      }),
      fc.nat(bytes.length),
      fc.boolean(),
    )
    .map(([changes, length, cut]) => {
      const copy = bytes.slice(0, cut ? length : bytes.length);
      for (const [at, value] of changes) if (at < copy.length) copy[at] = value;
      return copy;
    });

describe("Arrow from a client", () => {
  const fields = read(...(schema ?? [ipc, ipc]), []) as ReadField[];

  it("is read", () => {
    expect(fields.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(read(...(batch ?? [ipc, ipc]), fields)).toEqual([
      [
        { type: "INTEGER", text: "1" },
        { type: "VARCHAR", text: "x" },
      ],
      [
        { type: "INTEGER", text: null },
        { type: "VARCHAR", text: "yy" },
      ],
      [
        { type: "INTEGER", text: "3" },
        { type: "VARCHAR", text: null },
      ],
    ]);
  });

  it("that was bent is read or refused", () => {
    for (const [header, body] of [schema, batch].filter((part) => part !== undefined)) {
      fc.assert(
        fc.property(bent(header), bent(body), (h, b) => {
          expect(read(h, b, fields)).toBeDefined();
        }),
        { numRuns: 20_000 },
      );
    }
  });
});
