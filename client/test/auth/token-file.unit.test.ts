import { mkdtemp, readFile, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type StoredLogin, readLogin, tokenFilePath, tokenFiles, writeLogin } from "../../src/auth/token-file.js";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "token-file-"));
});
afterAll(() => rm(directory, { recursive: true }));

const login: StoredLogin = {
  issuer: "https://id.example.com",
  clientId: "cli",
  accessToken: "access",
  refreshToken: null,
  idToken: "a.b.c",
  expiresAt: 1_800_000_000,
};

describe("a token file", () => {
  it("holds what was written, for its owner alone", async () => {
    const file = tokenFilePath(directory, null);
    await writeLogin(file, login);
    expect(await readLogin(file)).toEqual(login);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(file, "utf8"))).toEqual({
      issuer: "https://id.example.com",
      client_id: "cli",
      token: { access_token: "access", refresh_token: null, id_token: "a.b.c", expires_at: 1_800_000_000 },
    });
  });

  it("is never met half written, however many write it at once", async () => {
    const file = tokenFilePath(directory, "busy");
    await writeLogin(file, login);
    const writers = Array.from({ length: 40 }, (_, i) =>
      writeLogin(file, { ...login, accessToken: "x".repeat(i * 1000 + 1) }),
    );
    for (let i = 0; i < 200; i++) {
      expect(await readLogin(file)).toMatchObject({ issuer: login.issuer });
    }
    await Promise.all(writers);
    expect(await readdir(directory)).toEqual(["tokens-busy.json", "tokens.json"]);
  });

  it("has a name by profile, under which logout finds it", async () => {
    await writeLogin(tokenFilePath(directory, "work.eu"), login);
    const names = (await tokenFiles(directory)).map((file) => path.basename(file));
    expect(names).toEqual(expect.arrayContaining(["tokens-busy.json", "tokens-work.eu.json", "tokens.json"]));
    expect(await tokenFiles(path.join(directory, "none"))).toEqual([]);
  });
});
