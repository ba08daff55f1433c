import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { arbitraryRequest, namedSignals } from "../helpers/otlp/otlp-arbitraries.js";
import { toOtlpJson } from "../helpers/otlp/otlp-json.js";
import { expectRequest } from "../helpers/otlp/otlp-model.js";
import { decodePlain, encodePlain } from "../helpers/otlp/otlp-proto.js";
import { createBuilder, decodeOne, plainHead, receivedAt, withoutIds } from "../helpers/lake/segment.js";

describe.each(namedSignals)("OTLP $name in JSON", ({ signal }) => {
  const builder = createBuilder();
  const head = plainHead(signal, { format: "json" });

  it("gives the rows that the same message gives in protobuf, however it is spelt", () => {
    fc.assert(
      fc.property(arbitraryRequest[signal], fc.integer(), (message, seed) => {
        const bytes = encodePlain(signal, message);
        const expected = expectRequest(signal, decodePlain(signal, bytes), receivedAt);
        const text = toOtlpJson(signal, message, seed);
        expect(() => JSON.parse(text) as unknown).not.toThrow();
        const { outcome, rows, segment } = decodeOne(builder, Buffer.from(text), head);
        // Equal blocks in one request are stored and counted once: the model does not know them.
        fc.pre(segment.blocks.reduce((sum, { rowCount }) => sum + rowCount, 0) === expected.records);
        expect(outcome).toMatchObject({
          kind: "stored",
          records: expected.records,
          rejected: expected.rejected,
          droppedAttributes: expected.droppedAttributes,
        });
        expect(withoutIds(rows)).toEqual(expected.rows);
      }),
      { numRuns: 400 },
    );
  });

  it("gives the same block ids for the same text", () => {
    fc.assert(
      fc.property(arbitraryRequest[signal], fc.integer(), (message, seed) => {
        const body = Buffer.from(toOtlpJson(signal, message, seed));
        const first = decodeOne(builder, body, head).segment.blocks;
        expect(decodeOne(createBuilder(), body, head).segment.blocks).toEqual(first);
      }),
      { numRuns: 20 },
    );
  });
});
