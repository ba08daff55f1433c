/** What WebAssembly reads of messages, beside what the general reader makes of the same bytes. */
import * as fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";

import { buildPayload, loadSignals, patch } from "../../bench/load/otlp-payloads.js";
import { MessageScanner } from "../../src/ingest/decode/scan/message-scanner.js";
import { createBuilder, decodeOne, plainHead } from "../helpers/lake/segment.js";
import { arbitraryRequest, namedSignals } from "../helpers/otlp/otlp-arbitraries.js";
import { field, join, logsRequest, tracesRequest, utf8 } from "../helpers/otlp/otlp-build.js";
import { createDice, encodeShuffled } from "../helpers/otlp/otlp-encode.js";
import { encodePlain, type PlainMessage } from "../helpers/otlp/otlp-proto.js";

const scanning = createBuilder();
/** Takes no message, because it could not tell whether one nests too deeply. */
const general = createBuilder(undefined, 30);

/** What both make of the bytes of a request. */
function both(bytes: Uint8Array, signal: 1 | 2 | 3): { scanned: Made; read: Made } {
  const [scanned, read] = [scanning, general].map((builder): Made => {
    const { outcome, rows, segment } = decodeOne(builder, bytes, plainHead(signal));
    return { outcome, rows, blocks: segment.blocks };
  }) as [Made, Made];
  return { scanned, read };
}

type Decoded = ReturnType<typeof decodeOne>;
type Made = Pick<Decoded, "outcome" | "rows"> & { readonly blocks: Decoded["segment"]["blocks"] };

function expectSame(bytes: Uint8Array, signal: 1 | 2 | 3): Made {
  const { scanned, read } = both(bytes, signal);
  expect(scanned).toEqual(read);
  return scanned;
}

function logs(...logRecords: readonly PlainMessage[]): Uint8Array {
  return encodePlain(1, { resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
}

const text = (stringValue: string): PlainMessage => ({ stringValue });

/** How many messages WebAssembly was asked to read, and how many it did. */
function countScans(): { asked: number; taken: number } {
  const scan = vi.spyOn(MessageScanner.prototype, "scan");
  const results = (): unknown[] => scan.mock.results.map(({ value }) => value as unknown);
  return {
    get asked(): number {
      return results().length;
    },
    get taken(): number {
      return results().filter((isTaken) => isTaken === true).length;
    },
  };
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe.each(namedSignals)("scanned messages of $name", ({ signal }) => {
  it("are what the general reader makes of them", () => {
    fc.assert(
      fc.property(arbitraryRequest[signal], (message) => {
        const { scanned, read } = both(encodePlain(signal, message), signal);
        expect(scanned).toEqual(read);
      }),
      { numRuns: 200 },
    );
  });

  it("are as good or as bad when bytes are damaged", () => {
    fc.assert(
      fc.property(arbitraryRequest[signal], fc.nat(), (message, seed) => {
        const dice = createDice(seed);
        const bytes = Uint8Array.from(encodePlain(signal, message));
        for (let count = 1 + dice(3); count > 0 && bytes.length > 0; count--) {
          bytes[dice(bytes.length)] = dice(2) === 0 ? dice(256) : dice(24);
        }
        for (const damaged of [bytes, bytes.subarray(0, dice(bytes.length + 1))]) {
          const { scanned, read } = both(damaged, signal);
          expect(scanned).toEqual(read);
        }
      }),
      { numRuns: 600 },
    );
  });

  it("stand between others that it does not take", () => {
    fc.assert(
      fc.property(fc.array(arbitraryRequest[signal], { minLength: 2, maxLength: 5 }), fc.nat(), (messages, seed) => {
        const parts = messages.map((message, index) =>
          index % 2 === 0 ? encodePlain(signal, message) : encodeShuffled(signal, message, seed),
        );
        const { scanned, read } = both(join(...parts), signal);
        expect(scanned).toEqual(read);
      }),
      { numRuns: 100 },
    );
  });
});

describe("the scanner", () => {
  it.each(loadSignals)("takes every message that the load generator sends: %s", (signal) => {
    const counts = countScans();
    const payload = buildPayload(signal, 1000, 7);
    const { body } = payload;
    patch(payload, body, 1_700_000_000_000_000_000n);
    const { outcome } = decodeOne(
      createBuilder(),
      body,
      plainHead(({ logs: 1, metrics: 2, traces: 3 } as const)[signal]),
    );
    expect(outcome).toMatchObject({ kind: "stored", records: 1000 });
    expect(counts.asked).toBeGreaterThan(300);
    expect(counts.taken).toBe(counts.asked);
  });

  it("takes all kinds of values, lists of lists of them and text of any language", () => {
    const counts = countScans();
    const values = [
      text('"\\\n\u0001 é 漢 😀'),
      { boolValue: true },
      { boolValue: false },
      { intValue: -(2n ** 63n) },
      { intValue: 12345678901234567890n - 2n ** 63n },
      { doubleValue: 0.1234567891 },
      { doubleValue: -0.25 },
      { arrayValue: { values: [text("a"), { arrayValue: { values: [] } }, {}] } },
      { kvlistValue: { values: [{ key: "k", value: { kvlistValue: { values: [] } } }] } },
      {},
    ];
    const { rows } = expectSame(
      logs({ attributes: values.map((value, index) => ({ key: `k${index}`, value })), body: values[8] }),
      1,
    );
    expect([counts.asked, counts.taken]).toEqual([2, 1]);
    expect(rows.log_entries[0]).toMatchObject({ msg: '{"k":{}}', body_type: "kvlist" });
  });

  it("gives up on lists that nest deeper than it looks", () => {
    let value: PlainMessage = text("x");
    for (let level = 1; level <= 12; level++) {
      value = { arrayValue: { values: [value] } };
      const counts = countScans();
      expectSame(logs({ attributes: [{ key: "deep", value }] }), 1);
      expect({ level, taken: counts.taken }).toEqual({ level, taken: level <= 8 ? 1 : 0 });
      vi.restoreAllMocks();
    }
  });

  it("reads text of any length with anything at any place", () => {
    const odd = ['"', "\\", "\n", "\u007f", "\u0000", "é", "漢", "😀"];
    const records: PlainMessage[] = [];
    for (let length = 0; length < 40; length++) {
      for (const letter of odd) {
        const value = `${"a".repeat(length)}${letter}${"b".repeat(40 - length)}`;
        records.push({ body: text(value), severityText: value, attributes: [{ key: value, value: text(value) }] });
        records.push({ body: text("c".repeat(length)), eventName: "d".repeat(length) });
      }
    }
    const { rows } = expectSame(logs(...records), 1);
    expect(rows.log_entries).toHaveLength(records.length);
    expect(rows.log_entries[16]).toMatchObject({ msg: `a"${"b".repeat(39)}` });
  });

  it("refuses what is not UTF-8, at any place", () => {
    const bad = [[0x80], [0xc1, 0x81], [0xe0, 0x80, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe6, 0xbc]];
    for (const sequence of bad) {
      for (const before of [0, 7, 15, 16, 31]) {
        const value = join(utf8("a".repeat(before)), sequence);
        for (const record of [field(3, value), field(5, field(1, value)), field(6, field(1, value), field(2))]) {
          const { outcome } = expectSame(logsRequest(record, field(5, field(1, utf8("good")))), 1);
          expect(outcome).toMatchObject({ kind: "stored", records: 1, rejected: 1 });
        }
      }
    }
  });

  it("refuses text that is cut off where the next field would complete it", () => {
    const ids = [field(1, new Uint8Array(16).fill(1)), field(2, new Uint8Array(8).fill(1))];
    // The tag of the flags begins with 0x85, which could continue a sequence.
    const flags = [0x85, 0x01, 0, 0, 0, 0];
    const { outcome } = expectSame(tracesRequest(join(...ids, field(5, [0xe6, 0xbc]), flags)), 3);
    expect(outcome).toMatchObject({ kind: "stored", records: 0, rejected: 1 });
  });

  it("leaves a text that comes twice to the general reader, which takes the last one", () => {
    const counts = countScans();
    const { rows } = expectSame(logsRequest(join(field(3, utf8("first")), field(3, utf8("last")))), 1);
    expect(rows.log_entries[0]).toMatchObject({ severity_text: "last" });
    expect(counts.taken).toBe(0);
  });

  it("keeps what it staged apart from rows that are taken back, and copies it when there is much", () => {
    const records = Array.from({ length: 3000 }, (_, index): PlainMessage => ({
      timeUnixNano: 1_700_000_000_000_000_000n + BigInt(index),
      body: text(`${index} ${"x".repeat(index % 97)}`),
      attributes: [{ key: "n", value: { intValue: index } }],
      // Every seventh is not stored, and every eleventh has a field twice, which is not for the scanner.
      traceId: new Uint8Array(index % 7 === 0 ? 5 : 16).fill(index % 5),
      spanId: new Uint8Array(index % 3 === 0 ? 16 : 8).fill(index % 4),
    }));
    const doubled = records.map((record, index) =>
      index % 11 === 0
        ? {
            ...record,
            attributes: [...(record["attributes"] as PlainMessage[]), { key: "b", value: { bytesValue: [1] } }],
          }
        : record,
    );
    const { outcome } = expectSame(logs(...doubled), 1);
    const rejected = records.filter((_, index) => index % 7 === 0 || index % 3 === 0).length;
    expect(outcome).toMatchObject({ kind: "stored", records: 3000 - rejected, rejected });
  });

  it.each([32_000, 32 * 1024 - 40, 32 * 1024, 33_000, 200_000])("reads a record of some %i bytes", (length) => {
    const before = { body: text("before") };
    const long = {
      body: text("\n".repeat(length / 2)),
      attributes: [{ key: "k", value: text("\u0001".repeat(length / 2)) }],
    };
    const { rows } = expectSame(logs(before, long, before, long, before), 1);
    expect(rows.log_entries).toHaveLength(5);
  });

  it("skips a field whose number is an argument of its plan", () => {
    // Tags 256 to 511 stand for nothing: fields 32 to 63.
    for (let number = 32; number < 64; number++) {
      const unknown = join([0x80 | ((number << 3) & 0x7f) | 2, (number << 3) >> 7], [1, 0]);
      const { outcome } = expectSame(logsRequest(join(field(5, field(1, utf8("x"))), unknown)), 1);
      expect(outcome).toMatchObject({ kind: "stored", records: 1 });
    }
  });

  it("reads a span with more events than it notes", () => {
    const span = {
      traceId: new Uint8Array(16).fill(1),
      spanId: new Uint8Array(8).fill(1),
      name: "many",
      events: Array.from({ length: 65 }, (_, index) => ({ name: `event ${index}` })),
    };
    const counts = countScans();
    const bytes = encodePlain(3, {
      resourceSpans: [{ scopeSpans: [{ spans: [span, { ...span, events: span.events.slice(1) }] }] }],
    });
    const { rows } = expectSame(bytes, 3);
    expect(rows.spans.map((row) => (row["events"] as unknown[]).length)).toEqual([65, 64]);
    expect(counts.taken).toBe(1);
  });
});
