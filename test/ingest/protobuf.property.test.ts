import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { arbitraryRequest, namedSignals } from "../helpers/otlp/otlp-arbitraries.js";
import { encodeShuffled } from "../helpers/otlp/otlp-encode.js";
import { expectRequest } from "../helpers/otlp/otlp-model.js";
import { decodePlain, encodePlain } from "../helpers/otlp/otlp-proto.js";
import { createBuilder, decodeOne, plainHead, receivedAt, withoutIds } from "../helpers/lake/segment.js";

describe.each(namedSignals)("OTLP $name in protobuf", ({ signal }) => {
  const builder = createBuilder();

  /** What we make of the bytes, and what the model makes of what protobufjs reads in them. */
  const both = (bytes: Uint8Array): { ours: unknown; theirs: unknown } => {
    const { rows, ...counts } = expectRequest(signal, decodePlain(signal, bytes), receivedAt);
    const decoded = decodeOne(builder, bytes, plainHead(signal));
    // Equal blocks in one request are stored and counted once: the model does not know them.
    fc.pre(decoded.segment.blocks.reduce((sum, { rowCount }) => sum + rowCount, 0) === counts.records);
    return {
      ours: { ...decoded.outcome, rejectedReason: null, rows: withoutIds(decoded.rows) },
      theirs: {
        kind: "stored",
        ...counts,
        rejectedReason: null,
        rows,
      },
    };
  };

  it("gives the rows that protobufjs gives, whatever the order of fields and the unknown ones", () => {
    fc.assert(
      fc.property(arbitraryRequest[signal], fc.integer(), (message, seed) => {
        const { ours, theirs } = both(encodeShuffled(signal, message, seed));
        expect(ours).toEqual(theirs);
      }),
      { numRuns: 400 },
    );
  });

  it("gives the rows that protobufjs gives for the bytes that protobufjs writes", () => {
    fc.assert(
      fc.property(arbitraryRequest[signal], (message) => {
        const { ours, theirs } = both(encodePlain(signal, message));
        expect(ours).toEqual(theirs);
      }),
      { numRuns: 200 },
    );
  });

  it("keeps requests of one segment apart", () => {
    fc.assert(
      fc.property(fc.array(arbitraryRequest[signal], { minLength: 2, maxLength: 4 }), (messages) => {
        const bodies = messages.map((message) => encodePlain(signal, message));
        if (new Set(bodies.map((body) => Buffer.from(body).toString("hex"))).size < bodies.length) {
          return;
        }
        const alone = bodies.map((body) => decodeOne(builder, body, plainHead(signal)));
        const count = alone.reduce((total, one) => total + one.segment.blocks.length, 0);
        builder.begin(receivedAt, new Set());
        for (const body of bodies) {
          builder.add(body, plainHead(signal));
        }
        const segment = builder.finish();
        fc.pre(segment.blocks.length === count);
        expect(segment.blocks).toEqual(alone.flatMap((one) => one.segment.blocks));
      }),
      { numRuns: 60 },
    );
  });
});
