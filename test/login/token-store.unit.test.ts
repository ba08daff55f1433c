import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { loadSecrets } from "../../src/login/secrets.js";
import { openTokenStore } from "../../src/login/token-store.js";

let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "login-"));
  file = path.join(directory, "made/when-missing/file.json");
});
afterEach(async () => {
  vi.useRealTimers();
  await rm(directory, { recursive: true });
});

const modeOf = async (): Promise<number> => (await stat(file)).mode & 0o777;

describe("what the identity provider remembers", () => {
  it("outlives a restart where it is a refresh token or its grant, and nothing else does", async () => {
    const store = await openTokenStore(file);
    for (const model of ["RefreshToken", "Grant", "Session", "AuthorizationCode", "Interaction", "AccessToken"]) {
      await store.model(model).upsert("a", { grantId: "g", of: model }, 60);
    }
    await store.model("RefreshToken").consume("a");
    expect(await modeOf()).toBe(0o600);
    const after = await openTokenStore(file);
    expect(await after.model("Grant").find("a")).toEqual({ grantId: "g", of: "Grant" });
    const token = await after.model("RefreshToken").find("a");
    expect(token?.consumed).toBeCloseTo(Date.now() / 1000, -2);
    for (const model of ["Session", "AuthorizationCode", "Interaction", "AccessToken"]) {
      expect(await store.model(model).find("a")).toMatchObject({ of: model });
      expect(await after.model(model).find("a")).toBe(undefined);
    }
  });

  it("keeps logins however many are begun", async () => {
    const store = await openTokenStore(file);
    await store.model("RefreshToken").upsert("r", {}, 60);
    for (let i = 0; i < 1100; i++) {
      await store.model("Interaction").upsert(String(i), {}, 60);
    }
    expect(await store.model("RefreshToken").find("r")).toEqual({});
    expect(await store.model("Interaction").find("0")).toBe(undefined);
    expect(await store.model("Interaction").find("1099")).toEqual({});
  });

  it("ends when its time is over", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_000_000 });
    const store = await openTokenStore(file);
    await store.model("RefreshToken").upsert("short", {}, 60);
    await store.model("RefreshToken").upsert("long", {}, 120);
    vi.setSystemTime(1_060_000);
    expect(await store.model("RefreshToken").find("short")).toBe(undefined);
    expect(await store.model("RefreshToken").find("long")).toEqual({});
    await store.model("RefreshToken").upsert("other", {}, undefined);
    expect(await readFile(file, "utf8")).not.toContain("short");
  });

  it("is found by the fields that the library asks for, and revoked with its grant, for good", async () => {
    const store = await openTokenStore(file);
    await store.model("Session").upsert("s", { uid: "u" }, 60);
    await store.model("DeviceCode").upsert("d", { userCode: "ABCD", grantId: "g" }, 60);
    await store.model("RefreshToken").upsert("r", { grantId: "g" }, 60);
    await store.model("RefreshToken").upsert("other", { grantId: "h" }, 60);
    expect(await store.model("Session").findByUid("u")).toEqual({ uid: "u" });
    expect(await store.model("Session").findByUid("d")).toBe(undefined);
    expect(await store.model("DeviceCode").findByUserCode("ABCD")).toMatchObject({ grantId: "g" });
    await store.model("RefreshToken").revokeByGrantId("g");
    const after = await openTokenStore(file);
    for (const found of [
      await store.model("RefreshToken").find("r"),
      await store.model("DeviceCode").find("d"),
      await after.model("RefreshToken").find("r"),
    ]) {
      expect(found).toBe(undefined);
    }
    expect(await after.model("RefreshToken").find("other")).toEqual({ grantId: "h" });
    await after.model("RefreshToken").destroy("other");
    expect(await (await openTokenStore(file)).model("RefreshToken").find("other")).toBe(undefined);
  });

  it("is bounded: the oldest goes first", async () => {
    const store = await openTokenStore(file);
    for (let i = 0; i <= 1000; i++) {
      await store.model("Interaction").upsert(String(i), {}, 60);
    }
    expect(await store.model("Interaction").find("0")).toBe(undefined);
    expect(await store.model("Interaction").find("1")).toEqual({});
    expect(await store.model("Interaction").find("1000")).toEqual({});
  });

  it("keeps every one of many written at once", async () => {
    const store = await openTokenStore(file);
    const ids = Array.from({ length: 20 }, (_, i) => String(i));
    await Promise.all(ids.map((id) => store.model("RefreshToken").upsert(id, { id }, 60)));
    const after = await openTokenStore(file);
    for (const id of ids) {
      expect(await after.model("RefreshToken").find(id)).toEqual({ id });
    }
  });
});

describe("the secrets of the identity provider", () => {
  it("are made once, and kept from others", async () => {
    const first = await loadSecrets(file);
    expect(first.signingKey).toMatchObject({ kty: "RSA", alg: "RS256" });
    await chmod(file, 0o644);
    expect(await loadSecrets(file)).toEqual(first);
    expect(await modeOf()).toBe(0o600);
    expect(new Set([first.clientSecret, first.cookieKey, first.stateSecret]).size).toBe(3);
  });
});

describe("a file that holds something else", () => {
  const write = async (text: string): Promise<string> => {
    const broken = path.join(directory, "broken.json");
    await writeFile(broken, text);
    return broken;
  };

  it.each(["", "{", "null", "[]", '"text"', '{"signingKey": {}}'])("is no secrets: %j", async (text) => {
    const broken = await write(text);
    await expect(loadSecrets(broken)).rejects.toThrow(`${broken} does not hold the secrets of the development login`);
  });

  it.each(["", "{", "null", "{}", '"text"'])("is no tokens: %j", async (text) => {
    const broken = await write(text);
    await expect(openTokenStore(broken)).rejects.toThrow(`${broken} does not hold the tokens of the development login`);
  });
});
