/** Arrow messages that were bent: the reader takes them or refuses them, and always returns. */
import { Dictionary, Int32, Int8, Table, tableToIPC, Utf8, Utf8View, vectorFromArray } from "apache-arrow";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { BatchValues } from "../../src/query/arrow/parameter-values.js";
import type { ParameterValue } from "../../src/query/gate/parameters.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { type ReadField, readMessage } from "../../src/wire/flight/flight-arrow-read.js";
import { arrowMessages } from "../helpers/flight/arrow-messages.js";

/** Header and body of the schema, a dictionary and a batch. */
const messages = arrowMessages(
  tableToIPC(
    new Table({
      a: vectorFromArray([1, null, 3], new Int32()),
      b: vectorFromArray(["x", "yy", null], new Utf8()),
      c: vectorFromArray([null, "x", "longer than a view"], new Utf8View()),
      d: vectorFromArray(["z", "z", null], new Dictionary(new Utf8(), new Int8())),
    }),
    "stream",
  ),
);
const [schema, dictionary, batch] = messages;

function read(header: Uint8Array, body: Uint8Array, fields: readonly ReadField[]): unknown {
  try {
    const message = readMessage(header, body, fields);
    if (message.kind === "schema") {
      return message.fields;
    }
    const values = new BatchValues(fields, 10_000);
    // What a stream would have had before this message.
    const known = dictionary === undefined ? null : readMessage(dictionary.header, dictionary.body, fields);
    if (known?.kind === "dictionary") {
      values.addDictionary(known);
    }
    if (message.kind === "dictionary") {
      values.addDictionary(message);
    } else if (message.rows <= 1000) {
      values.addBatch(message);
    }
    return values.sets;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "BAD_REQUEST") {
      return null;
    }
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
      for (const [at, value] of changes) {
        if (at < copy.length) {
          copy[at] = value;
        }
      }
      return copy;
    });

describe("Arrow from a client", () => {
  const none = new Uint8Array(0);
  const fields = read(schema?.header ?? none, none, []) as ReadField[];

  it("is read", () => {
    expect(messages).toHaveLength(3);
    expect(fields.map(({ name }) => name)).toEqual(["a", "b", "c", "d"]);
    const rows = read(batch?.header ?? none, batch?.body ?? none, fields) as ParameterValue[][];
    expect(rows[0]?.map(({ type }) => type)).toEqual(["INTEGER", "VARCHAR", "VARCHAR", "VARCHAR"]);
    expect(rows.map((row) => row.map(({ text }) => text))).toEqual([
      ["1", "x", null, "z"],
      [null, "yy", "x", "z"],
      ["3", null, "longer than a view", null],
    ]);
  });

  it("that was bent is read or refused", () => {
    for (const { header, body } of messages) {
      fc.assert(
        fc.property(bent(header), bent(body), (h, b) => {
          expect(read(h, b, fields)).toBeDefined();
        }),
        { numRuns: 20_000 },
      );
    }
  });
});
