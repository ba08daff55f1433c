import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import {
  type StoredLogin,
  tokenFilePath,
  underTokenLock,
  userDirectory,
  writeLogin,
} from "../../src/auth/token-file.js";
import { runCli } from "../../src/cli/main.js";

const login: StoredLogin = {
  issuer: "https://id.example.com",
  clientId: "cli",
  accessToken: "access",
  refreshToken: null,
  idToken: null,
  expiresAt: 1_800_000_000,
};

let home: string;
let file: string;
beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), "logout-"));
  file = tokenFilePath(userDirectory(home), null);
  // Loads the command: what follows is about the order of things.
  await logout();
});
afterEach(() => rm(home, { recursive: true }));

function logout(interrupted = new AbortController().signal): Promise<number> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  return runCli({
    argv: ["logout"],
    env: {},
    homeDirectory: home,
    workingDirectory: home,
    version: "test",
    terminal: { stdin, stdout, stderr, interrupted, now: Date.now },
  });
}

describe("telemetry logout", () => {
  it("waits for a refresh that is under way, which would write the tokens again", async () => {
    await writeLogin(file, login);
    const never = new AbortController().signal;
    const ended = await underTokenLock(
      file,
      async () => {
        const running = logout();
        await Promise.race([running, delay(100)]);
        await writeLogin(file, { ...login, accessToken: "refreshed" });
        return { running };
      },
      never,
    );
    expect(await ended.running).toBe(0);
    expect(await readdir(path.dirname(file))).toEqual([]);
  });

  it("ends with Ctrl-C while it waits", async () => {
    await writeLogin(file, login);
    const interrupted = new AbortController();
    await underTokenLock(
      file,
      async () => {
        const running = logout(interrupted.signal);
        interrupted.abort();
        expect(await running).toBe(130);
      },
      new AbortController().signal,
    );
    expect(await readdir(path.dirname(file))).toEqual(["tokens.json"]);
  });
});
