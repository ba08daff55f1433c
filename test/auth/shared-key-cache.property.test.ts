import { createHash } from "node:crypto";
import { array, assert, constant, constantFrom, integer, oneof, property, record } from "fast-check";
import { describe, expect, it } from "vitest";
import {
  createSharedKeyCache,
  openSharedKeyCache,
  SharedKeyCacheWriter,
} from "../../src/auth/keys/shared-key-cache.js";

const hashes = Array.from({ length: 12 }, (_, i) => createHash("sha256").update(`key ${i}`).digest("binary"));
const keyIdOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

const key = integer({ min: 0, max: hashes.length - 1 });
const ttl = integer({ min: 0, max: 100 });
const audience = constantFrom(null, "a", "b-_9", "x".repeat(255));
const command = oneof(
  record({
    do: constant("live" as const),
    key,
    ttl,
    audience,
    keyId: integer({ min: 0, max: 99 }),
  }),
  record({ do: constant("unknown" as const), key, ttl }),
  record({ do: constant("wait" as const), key, ms: integer({ min: 1, max: 60 }) }),
  record({ do: constant("read" as const), key }),
);

type Entry = { readonly expiresAtMs: number } & (
  | { readonly kind: "ok"; readonly keyId: string; readonly audience: string | null }
  | { readonly kind: "rejected" }
);

describe("the shared key cache against a plain map", () => {
  it("tells every reader, whenever it opened, exactly what the map says of every key", () => {
    assert(
      property(array(command, { maxLength: 120 }), (commands) => {
        const handle = createSharedKeyCache({
          maxLive: 32,
          maxUnknown: 32,
          principalKind: "ingestion_key",
          refreshWindowMs: 0,
        });
        let nowMs = 5_000_000_000;
        const writer = new SharedKeyCacheWriter(handle, () => undefined);
        const open = (): ReturnType<typeof openSharedKeyCache> =>
          openSharedKeyCache(handle, { clock: () => nowMs, requestRefresh: () => undefined });
        const early = open();
        const model = new Map<string, Entry>();
        for (const c of commands) {
          const hash = hashes[c.key] as string;
          if (c.do === "live") {
            const expiresAtMs = nowMs + c.ttl;
            const identity = { keyId: keyIdOf(c.keyId), audience: c.audience };
            writer.setLive(hash, identity, expiresAtMs, 0);
            model.set(hash, { kind: "ok", expiresAtMs, ...identity });
          } else if (c.do === "unknown") {
            writer.setUnknown(hash, nowMs + c.ttl, 0);
            model.set(hash, { kind: "rejected", expiresAtMs: nowMs + c.ttl });
          } else if (c.do === "wait") {
            nowMs += c.ms;
          }
          const expected = hashes.map((h) => {
            const entry = model.get(h);
            if (entry === undefined || nowMs >= entry.expiresAtMs) {
              return null;
            }
            return entry.kind === "ok" ? [entry.keyId, entry.audience] : "rejected";
          });
          for (const reader of [early, open()]) {
            const seen = hashes.map((h) => {
              const outcome = reader.recall(h) ?? reader.lookup(h);
              if (outcome?.kind !== "ok") {
                return outcome?.kind ?? null;
              }
              return [outcome.principal.keyId, outcome.principal.audience];
            });
            expect(seen).toEqual(expected);
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  it("reports each use once, whichever reader had it and whether the key is still cached", () => {
    const handle = createSharedKeyCache({
      maxLive: 4,
      maxUnknown: 4,
      principalKind: "analytics_key",
      refreshWindowMs: 0,
    });
    const dropped: string[] = [];
    const writer = new SharedKeyCacheWriter(handle, ([keyId]) => dropped.push(keyId));
    let nowMs = 1_000_000;
    const reader = openSharedKeyCache(handle, {
      clock: () => nowMs,
      requestRefresh: () => undefined,
    });
    for (const [i, hash] of hashes.entries()) {
      writer.setLive(hash, { keyId: keyIdOf(i), audience: null }, 1e12, 1000 + i);
    }
    const held = writer.takeUses().map(([keyId]) => keyId);
    expect([...held, ...dropped].toSorted()).toEqual(hashes.map((_, i) => keyIdOf(i)));
    expect(writer.takeUses()).toEqual([]);
    nowMs = 2_000_000;
    for (let i = 0; i < 3; i++) {
      for (const hash of hashes) {
        reader.lookup(hash);
      }
    }
    expect(writer.takeUses()).toEqual(held.map((keyId) => [keyId, 2000]));
    expect(writer.takeUses()).toEqual([]);
  });
});
