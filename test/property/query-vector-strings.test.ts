/** Strings that lie anywhere in memory: places that DuckDB would choose too rarely to rely on meeting them. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RawBindings } from "../../src/query/duckdb-bindings.js";
import { readStrings } from "../../src/query/vector-strings.js";

const pageBytes = 4096;
const twoTo32 = 2 ** 32;

/** Memory of which only the pages are mapped that hold a byte of something. */
class Memory {
  readonly #pages = new Map<number, Uint8Array>();
  reads = 0;

  write(address: number, bytes: Uint8Array): void {
    for (const [i, byte] of bytes.entries()) {
      const page = Math.floor((address + i) / pageBytes);
      const held = this.#pages.get(page) ?? new Uint8Array(pageBytes).fill(0xee);
      held[(address + i) % pageBytes] = byte;
      this.#pages.set(page, held);
    }
  }

  /** The one call of the bindings that follows a pointer. */
  readonly bindings = {
    get_data_from_pointer: (buffer: ArrayBuffer, offset: number, bytes: number): Uint8Array => {
      this.reads++;
      const address = Number(new DataView(buffer).getBigUint64(offset, true));
      return Uint8Array.from({ length: bytes }, (_, i) => {
        const page = this.#pages.get(Math.floor((address + i) / pageBytes));
        if (page === undefined) throw new Error(`segmentation fault at ${address + i}`);
        return page[(address + i) % pageBytes]!;
      });
    },
  } as Partial<RawBindings> as RawBindings;
}

interface Row {
  readonly text: Uint8Array;
  readonly valid: boolean;
  /** How far behind the string before it this one begins; negative: before it. */
  readonly gap: number;
}

/** The vector of rows, whose long strings lie at their gaps from each other. */
function layOut(rows: readonly Row[], begin: number): { memory: Memory; entries: Uint8Array } {
  const memory = new Memory();
  const entries = new Uint8Array(rows.length * 16).fill(0xdd);
  const view = new DataView(entries.buffer);
  const taken: [number, number][] = [];
  let next = begin;
  for (const [row, { text, valid, gap }] of rows.entries()) {
    if (!valid) continue;
    view.setUint32(row * 16, text.length, true);
    if (text.length <= 12) {
      entries.fill(0, row * 16 + 4, row * 16 + 16);
      entries.set(text, row * 16 + 4);
      continue;
    }
    let address = next + gap;
    // Where something is already, or no memory can be, the string goes behind all.
    if (
      address < pageBytes ||
      taken.some(([from, to]) => address < to && address + text.length > from)
    ) {
      address = Math.max(begin, ...taken.map(([, to]) => to));
    }
    taken.push([address, address + text.length]);
    entries.set(text.subarray(0, 4), row * 16 + 4);
    view.setBigUint64(row * 16 + 8, BigInt(address), true);
    memory.write(address, text);
    next = address + text.length;
  }
  return { memory, entries };
}

const long = fc.uint8Array({ minLength: 13, maxLength: 90 });
const texts = {
  "in place": fc.uint8Array({ maxLength: 12 }),
  long,
  "both kinds": fc.oneof(fc.uint8Array({ maxLength: 14 }), long),
  "over pages": fc.uint8Array({ minLength: 13, maxLength: 9000, size: "max" }),
};
const gaps = {
  "end to end": fc.constant(0),
  "with gaps": fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 20 })),
  anywhere: fc.oneof(
    fc.constant(0),
    fc.integer({ min: -20_000, max: 20_000 }),
    fc.integer({ min: -(2 ** 34), max: 2 ** 34 }),
  ),
};
const begins = fc.oneof(
  fc.integer({ min: 2 ** 36, max: 2 ** 46 }),
  // The lower half of the address overflows soon, and looks negative before.
  fc.integer({ min: 1, max: 300 }).map((below) => 9 * twoTo32 - below),
  fc.integer({ min: 1, max: 300 }).map((below) => 9 * twoTo32 + 2 ** 31 - below),
);

/** Pairs of first row and row count: all rows, or a few ranges in any order. */
const rangesOf = (rows: number): fc.Arbitrary<number[]> =>
  fc.oneof(
    fc.constant<number[]>([0, rows]),
    fc
      .array(fc.tuple(fc.nat(rows), fc.nat(rows)), { maxLength: 4 })
      .map((pairs) =>
        pairs.flatMap(([a, b]) => (a === b ? [] : [Math.min(a, b), Math.abs(b - a)])),
      ),
  );

describe("strings of a vector", () => {
  for (const [kind, text] of Object.entries(texts)) {
    for (const [where, gap] of Object.entries(gaps)) {
      test(`${kind}, ${where} in memory, are read as they are, and nothing beside their pages`, () => {
        const cases = fc
          .array(
            fc.record({
              text,
              valid: fc.oneof({ weight: 9, arbitrary: fc.constant(true) }, fc.boolean()),
              gap,
            }),
            { maxLength: 40 },
          )
          .chain((rows) => fc.tuple(fc.constant(rows), rangesOf(rows.length), begins));
        fc.assert(
          fc.property(cases, ([rows, ranges, begin]) => {
            const { memory, entries } = layOut(rows, begin);
            const validity = new Uint8Array(((rows.length + 63) >> 6) * 8);
            for (const [row, { valid }] of rows.entries()) {
              if (valid) validity[row >> 3] = validity[row >> 3]! | (1 << (row & 7));
            }
            const wanted: string[] = [];
            for (let r = 0; r < ranges.length; r += 2) {
              for (const row of rows.slice(ranges[r], ranges[r]! + ranges[r + 1]!)) {
                wanted.push(row.valid ? Buffer.from(row.text).toString("hex") : "");
              }
            }
            const { ends, bytes } = readStrings(
              memory.bindings,
              entries,
              Int32Array.from(ranges),
              wanted.length,
              rows.every(({ valid }) => valid) ? null : validity,
            );
            const read = Array.from(ends, (end, i) =>
              Buffer.from(bytes.subarray(i === 0 ? 0 : ends[i - 1], end)).toString("hex"),
            );
            expect(read).toEqual(wanted);
            expect(bytes.length).toBe(ends.at(-1) ?? 0);
          }),
          { numRuns: kind === "over pages" ? 40 : 150 },
        );
      });
    }
  }

  test("that follow each other are read with one call, however many there are", () => {
    const rows = Array.from({ length: 2048 }, (_, i) => ({
      text: Buffer.from(`message number ${i}`),
      valid: true,
      gap: 0,
    }));
    const { memory, entries } = layOut(rows, 2 ** 40);
    const { bytes } = readStrings(memory.bindings, entries, Int32Array.of(0, 2048), 2048, null);
    expect(Buffer.from(bytes).toString()).toBe(rows.map(({ text }) => text.toString()).join(""));
    expect(memory.reads).toBe(1);
  });
});
