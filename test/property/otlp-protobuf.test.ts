import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { arbitraryRequest } from "../helpers/otlp-arbitraries.js";
import { encodeShuffled } from "../helpers/otlp-encode.js";
import { expectRequest } from "../helpers/otlp-model.js";
import { decodePlain, encodePlain } from "../helpers/otlp-proto.js";
import { createBuilder, decodeOne, plainHead, receivedAt, withoutIds } from "../helpers/segment.js";

const signals = [
  { name: "logs", signal: 1 },
  { name: "metrics", signal: 2 },
  { name: "traces", signal: 3 },
] as const;

describe.each(signals)("OTLP $name in protobuf", ({ signal }) => {
  const builder = createBuilder();

  const check = (bytes: Uint8Array): void => {
    const expected = expectRequest(signal, decodePlain(signal, bytes), receivedAt);
    // Equal blocks in one request count once: the model does not know them.
    const { outcome, rows, segment } = decodeOne(builder, bytes, plainHead(signal));
    expect(outcome).toMatchObject({
      kind: "stored",
      records: expected.records,
      rejected: expected.rejected,
      droppedAttributes: expected.droppedAttributes,
      inflatedBytes: bytes.length,
    });
    const stored = segment.blocks.reduce((total, block) => total + block.rowCount, 0);
    if (stored !== expected.records) return;
    expect(withoutIds(rows)).toEqual(expected.rows);
  };

  it("gives the rows that protobufjs gives, whatever the order of fields and the unknown ones", () => {
    fc.assert(
      fc.property(arbitraryRequest[signal], fc.integer(), (message, seed) => {
        check(encodeShuffled(signal, message, seed));
      }),
      { numRuns: 400 },
    );
  });

  it("gives the rows that protobufjs gives for the bytes that protobufjs writes", () => {
    fc.assert(
      fc.property(arbitraryRequest[signal], (message) => check(encodePlain(signal, message))),
      { numRuns: 200 },
    );
  });

  it("keeps requests of one segment apart", () => {
    fc.assert(
      fc.property(
        fc.array(arbitraryRequest[signal], { minLength: 2, maxLength: 4 }),
        (messages) => {
          const bodies = messages.map((message) => encodePlain(signal, message));
          if (new Set(bodies.map((body) => Buffer.from(body).toString("hex"))).size < bodies.length)
            return;
          const alone = bodies.map((body) => decodeOne(builder, body, plainHead(signal)));
          const count = alone.reduce((total, one) => total + one.segment.blocks.length, 0);
          builder.begin(receivedAt, new Set());
          for (const body of bodies) builder.add(body, plainHead(signal));
          const segment = builder.finish();
          if (segment.blocks.length !== count) return;
          expect(segment.blocks).toEqual(alone.flatMap((one) => one.segment.blocks));
        },
      ),
      { numRuns: 60 },
    );
  });
});
