import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { generateKeyString, hashKey } from "../../src/auth/key-string.js";
import { holdsKeys, mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { authStartRefusal } from "../../src/auth/keys/startup.js";
import { createKeyStore, type KeyStoreFixture } from "../helpers/auth/auth-fixture.js";
import { until } from "../helpers/until.js";

const bearer = (key: string): string => `Bearer ${key}`;
const rejected = { kind: "rejected", message: "invalid token" };
const noCredential = { kind: "rejected", message: "authentication failed" };

let store: KeyStoreFixture;
afterEach(async () => {
  await store.stop();
});

async function mint(audience = "team-a"): Promise<{ key: string; keyId: string }> {
  return mintIngestionKey(store.db.sql, { name: "a key", audience, createdBy: "me@example.com" });
}

describe("the key store", () => {
  it("accepts a minted key as its audience's principal, from memory the second time", async () => {
    store = await createKeyStore();
    const { key, keyId } = await mint();
    expect(store.keys.authenticateNow(bearer(key))).toBeNull();
    const outcome = await store.keys.authenticate(bearer(key));
    expect(outcome).toEqual({
      kind: "ok",
      principal: {
        kind: "ingestion_key",
        keyId,
        issuer: null,
        subject: null,
        name: null,
        email: null,
        audience: "team-a",
      },
    });
    expect(store.keys.authenticateNow(bearer(key))).toEqual(outcome);
    expect(store.keys.authenticateNow(`bEARER   ${key}`)).toEqual(outcome);
    expect(await store.statements()).toBe(1);
  });

  it("keeps an audience of 255 characters whole", async () => {
    store = await createKeyStore();
    const audience = "Ab_-9".repeat(51);
    const { key } = await mint(audience);
    await store.keys.authenticate(bearer(key));
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ principal: { audience } });
  });

  it("tells keys of two audiences apart on every request", async () => {
    store = await createKeyStore();
    const a = await mint("team-a");
    const b = await mint("team-b");
    await Promise.all([a, b].map(({ key }) => store.keys.authenticate(bearer(key))));
    for (let i = 0; i < 100; i++) {
      const one = store.keys.authenticateNow(bearer(a.key));
      const other = store.keys.authenticateNow(bearer(b.key));
      expect(one).toMatchObject({ principal: { audience: "team-a", keyId: a.keyId } });
      expect(other).toMatchObject({ principal: { audience: "team-b", keyId: b.keyId } });
    }
  });

  it("gives analytics keys no audience and reads their own table only", async () => {
    store = await createKeyStore({ table: "analytics_api_keys" });
    const analytics = await mintAnalyticsKey(store.db.sql, { name: "q", createdBy: "me" });
    const ingestion = await mint();
    expect(await store.keys.authenticate(bearer(analytics.key))).toMatchObject({
      kind: "ok",
      principal: { kind: "analytics_key", keyId: analytics.keyId, audience: null },
    });
    expect(await store.keys.authenticate(bearer(ingestion.key))).toEqual(rejected);
  });

  it("refuses without a statement everything that cannot be a key", async () => {
    store = await createKeyStore();
    const { key } = await mint();
    const last = key.at(-1) === "a" ? "b" : "a";
    const malformed = [
      bearer(key.slice(0, -1) + last),
      bearer(`${key}x`),
      bearer(`${key} ${key}`),
      bearer(`${key}, ${bearer(key)}`),
      bearer("x"),
      bearer("\u00fc\u{1F600}"),
      bearer("a.b.c"),
      bearer(key.toUpperCase()),
    ];
    for (const authorization of malformed) {
      expect(store.keys.authenticateNow(authorization)).toEqual(rejected);
      expect(await store.keys.authenticate(authorization)).toEqual(rejected);
    }
    const none = ["", " ", "Bearer", "Bearer ", key, `Basic ${key}`, `Bearer${key}`];
    for (const authorization of [...none, bearer("x".repeat(100_000)), `\u0130earer ${key}`]) {
      expect(store.keys.authenticateNow(authorization)).toEqual(noCredential);
      expect(await store.keys.authenticate(authorization)).toEqual(noCredential);
    }
    expect(await store.statements()).toBe(0);
  });

  it("remembers an unknown key for the negative TTL and asks again afterwards", async () => {
    store = await createKeyStore();
    const key = generateKeyString();
    expect(store.keys.authenticateNow(bearer(key))).toBeNull();
    expect(await store.keys.authenticate(bearer(key))).toEqual(rejected);
    store.advance(9_999);
    expect(store.keys.authenticateNow(bearer(key))).toEqual(rejected);
    expect(await store.statements()).toBe(1);
    store.advance(1);
    expect(store.keys.authenticateNow(bearer(key))).toBeNull();
    // A key that comes to life is accepted once the negative entry is over.
    await store.db.sql`
      insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience)
      values (gen_random_uuid(), ${hashKey(key)}, 'late', 'me', 'late')`;
    expect(await store.keys.authenticate(bearer(key))).toMatchObject({ kind: "ok" });
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
  });

  it("lets a revoked key work to the end of the TTL and not a moment longer", async () => {
    store = await createKeyStore();
    const { key, keyId } = await mint();
    await store.keys.authenticate(bearer(key));
    await store.db.sql`
      update ingestion_api_keys set revoked_at = now(), revoked_by = 'me' where key_id = ${keyId}`;
    // Short of the window in which a use would refresh the entry and see the revocation.
    store.advance(44_000);
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
    store.advance(16_000);
    expect(store.keys.authenticateNow(bearer(key))).toBeNull();
    expect(await store.keys.authenticate(bearer(key))).toEqual(rejected);
    expect(store.keys.authenticateNow(bearer(key))).toEqual(rejected);
  });

  it("refreshes a key in use before its TTL ends, once, so that it never waits", async () => {
    store = await createKeyStore();
    const { key } = await mint();
    await store.keys.authenticate(bearer(key));
    store.advance(50_000);
    for (let i = 0; i < 100; i++) {
      expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
    }
    await until(async () => (await store.statements()) === 2);
    await sleep(30);
    expect(await store.statements()).toBe(2);
    store.advance(40_000);
    // The answer may still be on its way; nobody asks again.
    await until(() => store.keys.authenticateNow(bearer(key)) !== null);
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
    expect(await store.statements()).toBe(2);
  });

  it("stops accepting a revoked key as soon as a refresh sees the revocation", async () => {
    store = await createKeyStore();
    const { key, keyId } = await mint();
    await store.keys.authenticate(bearer(key));
    await store.db.sql`update ingestion_api_keys set revoked_at = now() where key_id = ${keyId}`;
    store.advance(50_000);
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
    await until(() => store.keys.authenticateNow(bearer(key))?.kind === "rejected");
  });

  it("asks once for concurrent misses of one key, and in one batch for many keys", async () => {
    store = await createKeyStore();
    const { key } = await mint();
    const same = await Promise.all(Array.from({ length: 200 }, () => store.keys.authenticate(bearer(key))));
    expect(same.every((outcome) => outcome.kind === "ok")).toBe(true);
    expect(await store.statements()).toBe(1);
    const minted = await Promise.all(Array.from({ length: 50 }, () => mint()));
    const unknown = Array.from({ length: 300 }, () => generateKeyString());
    const outcomes = await Promise.all(
      [...minted.map((m) => m.key), ...unknown].map((k) => store.keys.authenticate(bearer(k))),
    );
    expect(outcomes.filter((o) => o.kind === "ok").length).toBe(50);
    expect(outcomes.filter((o) => o.kind === "rejected").length).toBe(300);
    expect(await store.statements()).toBe(2);
  });

  it("keeps live keys when a flood of unknown ones fills the negative cache many times over", async () => {
    store = await createKeyStore({ cacheSize: 10, unknownCacheSize: 10 });
    const { key } = await mint();
    await store.keys.authenticate(bearer(key));
    for (let round = 0; round < 5; round++) {
      const flood = Array.from({ length: 1000 }, () => generateKeyString());
      await Promise.all(flood.map((k) => store.keys.authenticate(bearer(k))));
    }
    const before = await store.statements();
    expect(before).toBeLessThanOrEqual(6);
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
    expect(await store.statements()).toBe(before);
  });

  it("answers 503 rather than queue without bound, and still refreshes keys in use", async () => {
    store = await createKeyStore();
    const { key } = await mint();
    await store.keys.authenticate(bearer(key));
    store.advance(50_000);
    const flood = Array.from({ length: 20_000 }, () => generateKeyString());
    const answers = Promise.all(flood.map((k) => store.keys.authenticate(bearer(k))));
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
    const kinds = new Map<string, number>();
    for (const { kind } of await answers) {
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    }
    expect([...kinds.keys()].toSorted()).toEqual(["rejected", "unavailable"]);
    expect(kinds.get("rejected")).toBeLessThanOrEqual(8192);
    store.advance(30_000);
    expect(store.keys.authenticateNow(bearer(key))).toMatchObject({ kind: "ok" });
  });

  it("writes last_used_at once for many uses, not on the request path, and at stop", async () => {
    store = await createKeyStore();
    const { key, keyId } = await mint();
    const lastUsed = async (): Promise<number | undefined> => {
      const [row] = await store.db.sql<{ last_used_at: Date | null }[]>`
        select last_used_at from ingestion_api_keys where key_id = ${keyId}`;
      return row?.last_used_at?.getTime();
    };
    for (let i = 0; i < 50; i++) {
      await store.keys.authenticate(bearer(key));
    }
    expect(await lastUsed()).toBeUndefined();
    await store.keys.flushUsage();
    const first = await lastUsed();
    expect(Math.abs(Number(first) - Date.now())).toBeLessThan(60_000);
    // Within the minute nothing is written again, however often the flush runs.
    store.advance(20_000);
    store.keys.authenticateNow(bearer(key));
    await store.keys.flushUsage();
    expect(await lastUsed()).toBe(first);
    await store.keys.stop();
    expect(await lastUsed()).toBeGreaterThan(Number(first));
  });

  it("writes the last use of a key that was pushed out of the cache", async () => {
    store = await createKeyStore({ cacheSize: 2 });
    const minted = await Promise.all(Array.from({ length: 40 }, () => mint()));
    for (const { key } of minted) {
      await store.keys.authenticate(bearer(key));
    }
    await store.keys.flushUsage();
    const [row] = await store.db.sql<{ unused: number }[]>`
      select count(*)::int as unused from ingestion_api_keys where last_used_at is null`;
    expect(row?.unused).toBe(0);
  });

  it("treats a key whose row was edited to a malformed audience as no key", async () => {
    store = await createKeyStore();
    const { key, keyId } = await mint();
    await store.db.sql`alter table ingestion_api_keys drop constraint ingestion_api_keys_audience_check`;
    await store.db.sql`update ingestion_api_keys set audience = 'a b' where key_id = ${keyId}`;
    expect(await store.keys.authenticate(bearer(key))).toEqual(rejected);
  });

  it("sees an audience edited by hand within the TTL", async () => {
    store = await createKeyStore();
    const { key, keyId } = await mint();
    await store.keys.authenticate(bearer(key));
    await store.db.sql`update ingestion_api_keys set audience = 'other' where key_id = ${keyId}`;
    store.advance(60_000);
    expect(await store.keys.authenticate(bearer(key))).toMatchObject({
      principal: { audience: "other" },
    });
  });

  it("answers unavailable, not rejected, after it was stopped", async () => {
    store = await createKeyStore();
    const { key } = await mint();
    await store.keys.stop();
    expect(await store.keys.authenticate(bearer(key))).toMatchObject({ kind: "unavailable" });
  });

  it("stores only the hash, and refuses names and audiences outside the rules", async () => {
    store = await createKeyStore();
    const minted = await mint();
    const [row] = await store.db.sql<{ key_hash: Uint8Array; text: string }[]>`
      select key_hash, k::text as text from ingestion_api_keys k where key_id = ${minted.keyId}`;
    expect(Buffer.from(row?.key_hash ?? [])).toEqual(hashKey(minted.key));
    expect(row?.text).not.toContain(minted.key);
    const name255 = "é".repeat(127) + "x";
    await mintIngestionKey(store.db.sql, { name: name255, audience: "a", createdBy: "me" });
    for (const name of ["", "é".repeat(128), "x".repeat(256), "a\0b", "\ud800"]) {
      await expect(mintAnalyticsKey(store.db.sql, { name, createdBy: "me" })).rejects.toMatchObject({
        code: "BAD_REQUEST",
      });
    }
    for (const audience of ["", "a b", "a\n", "é", "x".repeat(256)]) {
      await expect(mintIngestionKey(store.db.sql, { name: "n", audience, createdBy: "me" })).rejects.toMatchObject({
        code: "BAD_REQUEST",
      });
    }
  });

  it("lets a server start with OIDC or a table that is not empty, and says which to provide otherwise", async () => {
    store = await createKeyStore();
    const table = "ingestion_api_keys" as const;
    const check = (oidcConfigured: boolean): Promise<string | null> =>
      authStartRefusal({ sql: store.db.sql, table, oidcConfigured });
    expect(await check(false)).toMatch(/SVC_OIDC_CONFIG.*ingestion_api_keys/);
    expect(await check(true)).toBeNull();
    const { keyId } = await mint();
    expect(await check(false)).toBeNull();
    expect(await holdsKeys(store.db.sql, "analytics_api_keys")).toBe(false);
    await store.db.sql`update ingestion_api_keys set revoked_at = now() where key_id = ${keyId}`;
    expect(await check(false)).toBeNull();
  });
});
