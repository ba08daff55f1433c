import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { runCli } from "../../src/cli/main.js";
import { script } from "../../src/cli/setup-command.js";

const awkward = String.raw`a'b"c$d\e` + "`f g";

describe("the variables of telemetry setup", () => {
  it("mean in sh what they say", () => {
    const text = script([["X", awkward]], "sh");
    expect(execFileSync("sh", ["-c", `${text}printf %s "$X"`]).toString()).toBe(awkward);
  });

  it("are quoted as each shell wants it", () => {
    expect(script([["X", "a'b"]], "fish")).toBe("set -gx X 'a\\'b'\n");
    expect(script([["X", "a'b"]], "powershell")).toBe("$env:X = 'a''b'\n");
    expect(script([["X", 'a"b$c']], "dotenv")).toBe('X="a\\"b\\$c"\n');
  });
});

describe("telemetry setup --out", () => {
  let directory: string;
  let web: Server;
  let minted: number;
  const config = { ingestion_url: "https://otlp.example.com" };
  const mint = { key: "k", key_id: "the-id", audience: "x", claimed: false };
  beforeEach(async () => {
    directory = await mkdtemp(path.join(tmpdir(), "setup-"));
    await writeFile(path.join(directory, "token"), "a.b.c", { mode: 0o600 });
    minted = 0;
    web = createServer((request, response) => {
      minted += request.method === "POST" ? 1 : 0;
      response
        .writeHead(200, { "content-type": "application/json", connection: "close" })
        .end(JSON.stringify(request.url === "/api/config" ? config : mint));
    }).listen(0, "127.0.0.1");
    await once(web, "listening");
  });
  afterEach(async () => {
    web.close();
    await once(web, "close");
    await rm(directory, { recursive: true });
  });

  async function setup(
    out: string,
    ...more: readonly string[]
  ): Promise<{ readonly code: number; readonly said: string }> {
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const webUrl = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
    const code = await runCli({
      argv: ["setup", "--audience", "x", "--token-file", "token", "--web-url", webUrl, "--out", out, ...more],
      env: {},
      homeDirectory: directory,
      workingDirectory: directory,
      version: "test",
      terminal: { stdin, stdout, stderr, interrupted: new AbortController().signal, now: Date.now },
    });
    return { code, said: await text(stderr.end()) };
  }

  it("leaves nothing but the file", async () => {
    expect((await setup("deep/otlp.env")).code).toBe(0);
    expect(await readdir(path.join(directory, "deep"))).toEqual(["otlp.env"]);
    expect(await readFile(path.join(directory, "deep", "otlp.env"), "utf8")).toContain("Bearer%20k");
  });

  it("sends to where the web server says that applications send, unless told otherwise", async () => {
    await setup("otlp.env");
    const endpoint = async (): Promise<string> =>
      (await readFile(path.join(directory, "otlp.env"), "utf8")).split("\n")[0]!;
    expect(await endpoint()).toBe("export OTEL_EXPORTER_OTLP_ENDPOINT='https://otlp.example.com/ingestion/otlp'");
    await setup("otlp.env", "--telemetry-url", "http://127.0.0.1:9100");
    expect(await endpoint()).toBe("export OTEL_EXPORTER_OTLP_ENDPOINT='http://127.0.0.1:9100/ingestion/otlp'");
  });

  it("mints no key for a place that takes no file", async () => {
    const { code, said } = await setup("token/otlp.env");
    expect([code, minted]).toEqual([1, 0]);
    expect(said).toMatch(/token\/otlp\.env cannot be written: E[A-Z]+; no key was minted\n$/u);
  });

  it("names a key that did not get into its file, so that it can be revoked", async () => {
    await mkdir(path.join(directory, "otlp.env"));
    const { code, said } = await setup("otlp.env");
    expect([code, minted]).toEqual([1, 1]);
    expect(said).toContain("otlp.env cannot be written: EISDIR; revoke it: telemetry keys revoke ingestion the-id");
  });
});
