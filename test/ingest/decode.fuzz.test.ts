import * as fc from "fast-check";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";

import type { BodyHead } from "../../src/ingest/body-head.js";
import { arbitraryRequest } from "../helpers/otlp/otlp-arbitraries.js";
import { field, join } from "../helpers/otlp/otlp-build.js";
import { createDice, encodeShuffled } from "../helpers/otlp/otlp-encode.js";
import { toOtlpJson } from "../helpers/otlp/otlp-json.js";
import { encodePlain } from "../helpers/otlp/otlp-proto.js";
import { createBuilder, plainHead, receivedAt, segmentRows } from "../helpers/lake/segment.js";

const samplesPerRun = 60;
const mutationsPerSample = 40;

/** Damages bytes in one of many ways. */
function mutate(bytes: Uint8Array, other: Uint8Array, dice: (bound: number) => number): Uint8Array {
  if (bytes.length === 0) {
    return Uint8Array.from({ length: dice(8) }, () => dice(256));
  }
  const at = dice(bytes.length);
  const copy = Uint8Array.from(bytes);
  switch (dice(9)) {
    case 0:
      copy[at] = (copy[at] ?? 0) ^ (1 << dice(8));
      return copy;
    case 1:
      copy[at] = dice(256);
      return copy;
    case 2:
      return copy.subarray(0, at);
    case 3:
      return join(copy.subarray(0, at), copy.subarray(Math.min(copy.length, at + 1 + dice(9))));
    case 4:
      return join(copy.subarray(0, at), other.subarray(dice(other.length + 1)), copy.subarray(at));
    case 5:
      // A length bomb.
      return join(copy.subarray(0, at), [0xff, 0xff, 0xff, 0xff, 0x0f], copy.subarray(at));
    case 6: {
      // A depth bomb of messages, or of groups.
      const levels = 1 + dice(3000);
      const isGroup = dice(2) === 0;
      const bomb = isGroup ? [0x0b] : [0x0a, 0x80 | dice(128), 0x7f];
      return join(copy.subarray(0, at), ...Array.from({ length: levels }, () => bomb), copy.subarray(at));
    }
    case 7:
      return field(1 + dice(15), copy.subarray(at));
    default:
      return join(copy, copy.subarray(at));
  }
}

/** Adds mutants between good requests; every one gets an outcome, and the stored rows are consistent. */
function fuzz(heads: readonly BodyHead[], samples: readonly Uint8Array[], dice: (bound: number) => number): void {
  const builder = createBuilder(1024 * 1024);
  const codes = new Set(["BAD_REQUEST", "PAYLOAD_TOO_LARGE"]);
  for (const [index, sample] of samples.entries()) {
    builder.begin(receivedAt, new Set());
    let kept = 0;
    let mutant = sample;
    const other = samples[(index + 1) % samples.length] ?? sample;
    for (let round = 0; round < mutationsPerSample; round++) {
      mutant = mutate(round % 8 === 0 ? sample : mutant, other, dice);
      const head = heads[dice(heads.length)] ?? plainHead(1);
      const outcome = builder.add(mutant, head);
      if (outcome.kind === "stored") {
        kept += outcome.records;
      } else {
        codes.add(outcome.kind === "failed" ? outcome.code : outcome.kind);
      }
    }
    const segment = builder.finish();
    const rows = segmentRows(segment);
    const count = Object.values(rows).reduce((sum, table) => sum + table.length, 0);
    expect(count).toBe(segment.blocks.reduce((sum, block) => sum + block.rowCount, 0));
    expect(count).toBe(kept);
    for (const row of [...rows.log_entries, ...rows.measures, ...rows.histograms, ...rows.spans]) {
      expect(() => JSON.parse(row["properties"] as string) as unknown).not.toThrow();
    }
  }
  expect(codes.size).toBe(2);
}

const signals = [1, 2, 3] as const;

describe("mutated requests only ever give an outcome, and leave no stray rows", () => {
  it.each(signals)("protobuf, signal %i", (signal) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const dice = createDice(seed);
    const samples = fc
      .sample(arbitraryRequest[signal], { numRuns: samplesPerRun, seed })
      .map((message) => encodeShuffled(signal, message, dice(2 ** 31)));
    // Bytes of one signal are tried as another, too.
    expect(
      () =>
        fuzz(
          signals.map((it) => plainHead(it)),
          samples,
          dice,
        ),
      `seed ${seed}`,
    ).not.toThrow();
  });

  it.each(signals)("JSON, signal %i", (signal) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const dice = createDice(seed);
    const samples = fc
      .sample(arbitraryRequest[signal], { numRuns: samplesPerRun, seed })
      .map((message) => Buffer.from(toOtlpJson(signal, message, dice(2 ** 31))));
    const heads = [plainHead(signal, { format: "json" })];
    expect(() => fuzz(heads, samples, dice), `seed ${seed}`).not.toThrow();
  });

  it("compressed bodies", () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const dice = createDice(seed);
    const samples = fc
      .sample(arbitraryRequest[1], { numRuns: samplesPerRun / 2, seed })
      .map((message) => gzipSync(encodePlain(1, message)));
    const heads = (["gzip", "deflate", "zstd"] as const).map((encoding) => plainHead(1, { encoding }));
    expect(() => fuzz(heads, samples, dice), `seed ${seed}`).not.toThrow();
  });
});
