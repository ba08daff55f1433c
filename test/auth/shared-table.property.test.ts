import { createHash } from "node:crypto";
import { array, assert, constant, integer, nat, oneof, property, record } from "fast-check";
import { describe, expect, it } from "vitest";
import {
  createSharedTable,
  hashWords,
  hashToWords,
  SharedTableReader,
  SharedTableWriter,
} from "../../src/auth/keys/shared-table.js";

function hashOf(n: number): Int32Array {
  const words = new Int32Array(hashWords);
  hashToWords(createHash("sha256").update(String(n)).digest("binary"), words);
  return words;
}

const key = integer({ min: 0, max: 40 });
const time = integer({ min: 0, max: 5_000_000_000 });
const command = oneof(
  record({ do: constant("set" as const), key, now: time, expiry: time, payload: integer() }),
  record({ do: constant("delete" as const), key, now: time }),
  record({ do: constant("find" as const), key, now: time }),
  record({ do: constant("reopen" as const), key, now: time }),
);

describe("the shared table against a plain map", () => {
  it("finds exactly what the map holds and has not expired, as long as nothing is evicted", () => {
    assert(
      property(array(command, { maxLength: 200 }), (commands) => {
        const handle = createSharedTable(41, 2);
        let writer = new SharedTableWriter(handle, 41);
        const reader = new SharedTableReader(handle);
        const payload = new Int32Array(2);
        const model = new Map<number, { expiry: number; payload: number }>();
        for (const c of commands) {
          const hash = hashOf(c.key);
          if (c.do === "set") {
            writer.set(hash, c.expiry, 0, Int32Array.of(c.payload, ~c.payload));
            model.set(c.key, c);
          } else if (c.do === "delete") {
            const deleted = writer.delete(hash);
            const expected = model.delete(c.key);
            if (deleted !== expected) {
              throw new Error(`delete said ${String(deleted)}`);
            }
          } else if (c.do === "reopen") {
            writer = new SharedTableWriter(handle, 41);
            model.clear();
          }
          const entry = model.get(c.key);
          const slot = reader.find(hash, c.now);
          const seen =
            slot >= 0 && reader.readPayload(slot, reader.sequence, payload) ? [reader.expiresAtMs, ...payload] : null;
          const isLive = entry !== undefined && c.now < entry.expiry;
          expect(seen).toEqual(isLive ? [entry.expiry, entry.payload, ~entry.payload] : null);
          expect(writer.size).toBe(model.size);
        }
      }),
      { numRuns: 150 },
    );
  });

  it("never holds more than its limit, never a wrong payload, and keeps what was set last", () => {
    assert(
      property(integer({ min: 1, max: 60 }), array(nat(500), { minLength: 1, maxLength: 400 }), (limit, keys) => {
        const handle = createSharedTable(limit, 1);
        let evicted = 0;
        const writer = new SharedTableWriter(handle, limit, () => evicted++);
        const reader = new SharedTableReader(handle);
        const payload = new Int32Array(1);
        keys.forEach((k, i) => {
          writer.set(hashOf(k), 1000, i, Int32Array.of(k));
          expect(writer.size).toBeLessThanOrEqual(limit);
          expect(reader.find(hashOf(k), 0)).toBeGreaterThanOrEqual(0);
        });
        let found = 0;
        let wrong = 0;
        for (const k of new Set(keys)) {
          const slot = reader.find(hashOf(k), 0);
          if (slot < 0) {
            continue;
          }
          found++;
          const whole = reader.readPayload(slot, reader.sequence, payload);
          if (!whole || payload[0] !== k) {
            wrong++;
          }
        }
        expect(wrong).toBe(0);
        expect(found).toBe(writer.size);
        expect(found + evicted).toBeGreaterThanOrEqual(new Set(keys).size);
      }),
      { numRuns: 100 },
    );
  });

  it("takes as many entries as it was made for, with practically none pushed out early", () => {
    const limit = 10_000;
    const handle = createSharedTable(limit, 1);
    const writer = new SharedTableWriter(handle, limit);
    for (let i = 0; i < limit; i++) {
      writer.set(hashOf(i), 1000, 0, Int32Array.of(i));
    }
    expect(writer.size).toBeGreaterThanOrEqual(limit - 5);
    for (let i = limit; i < 3 * limit; i++) {
      writer.set(hashOf(i), 1000, 1, Int32Array.of(i));
    }
    expect(writer.size).toBeGreaterThanOrEqual(limit - 5);
    expect(writer.size).toBeLessThanOrEqual(limit);
  });

  it("drops entries in the order of their last use, so busy ones stay", () => {
    const limit = 1000;
    const handle = createSharedTable(limit, 1);
    const writer = new SharedTableWriter(handle, limit);
    const reader = new SharedTableReader(handle);
    for (let i = 0; i < limit; i++) {
      writer.set(hashOf(i), 1000, 0, Int32Array.of(i));
    }
    const busy = Array.from({ length: 100 }, (_, i) => i).filter((i) => reader.find(hashOf(i), 0) >= 0);
    for (let i = 0; i < 20 * limit; i++) {
      if (i % 100 === 0) {
        for (const b of busy) {
          const slot = reader.find(hashOf(b), 0);
          if (slot >= 0) {
            reader.markUsed(slot, 1000 + i);
          }
        }
      }
      writer.set(hashOf(limit + i), 1000, 500 + i, Int32Array.of(i));
    }
    const left = busy.filter((b) => reader.find(hashOf(b), 0) >= 0);
    expect(left.length).toBe(busy.length);
  });

  it("grants the refresh of an entry to one claimant until it is written or released", () => {
    const handle = createSharedTable(10, 1);
    const writer = new SharedTableWriter(handle, 10);
    const readers = [new SharedTableReader(handle), new SharedTableReader(handle)];
    const h = hashOf(1);
    const slot = writer.set(h, 1000, 0, Int32Array.of(1));
    const claims = (): number => readers.filter((r) => r.claimRefresh(slot)).length;
    expect(claims()).toBe(1);
    expect(claims()).toBe(0);
    writer.releaseRefresh(h);
    expect(claims()).toBe(1);
    writer.set(h, 2000, 0, Int32Array.of(2));
    expect(claims()).toBe(1);
  });

  it("leaves the memory of a fresh table as it is, and empties one that was used", () => {
    const handle = createSharedTable(10, 1);
    const words = new Int32Array(handle.buffer);
    const writer = new SharedTableWriter(handle, 10);
    expect(words.every((word) => word === 0)).toBe(true);
    writer.set(hashOf(1), 1000, 0, Int32Array.of(1));
    expect([new SharedTableWriter(handle, 10).size, new SharedTableReader(handle).find(hashOf(1), 0)]).toEqual([0, -1]);
  });

  it("hides a slot whose writer died half way, until a new writer opens the table", () => {
    const handle = createSharedTable(10, 1);
    const writer = new SharedTableWriter(handle, 10);
    const reader = new SharedTableReader(handle);
    const h = hashOf(1);
    const slot = writer.set(h, 1000, 0, Int32Array.of(1));
    const words = new Int32Array(handle.buffer);
    const sequenceAt = 2 * reader.slots + slot * (4 + hashWords + 1);
    Atomics.add(words, sequenceAt, 1);
    expect(reader.find(h, 0)).toBe(-1);
    const next = new SharedTableWriter(handle, 10);
    expect(reader.find(h, 0)).toBe(-1);
    next.set(h, 1000, 0, Int32Array.of(2));
    expect(reader.find(h, 0)).toBeGreaterThanOrEqual(0);
  });
});
