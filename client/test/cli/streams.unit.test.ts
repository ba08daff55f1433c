/** Standard input and output that are not what a command hopes for. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { type AddressInfo, createServer } from "node:net";
import { PassThrough, Writable } from "node:stream";
import { expect, it, onTestFinished } from "vitest";

import { runCli } from "../../src/cli/main.js";

interface Ended {
  readonly code: number;
  readonly stderr: string;
}

async function run(
  argv: readonly string[],
  { stdin = new PassThrough(), stdout = new PassThrough() as Writable },
): Promise<Ended> {
  const stderr = new PassThrough();
  const code = await runCli({
    argv,
    env: { SVC_ANALYTICS_API_KEY: "svk_some" },
    homeDirectory: "/nowhere",
    workingDirectory: "/nowhere",
    version: "test",
    terminal: { stdin, stdout, stderr, interrupted: new AbortController().signal, now: Date.now },
  });
  return { code, stderr: String(stderr.read() ?? "") };
}

it.each(["--help", "--version", "query --help"])("%s on a full disk fails", async (line) => {
  const full = new Writable({
    write: (_chunk, _encoding, done) => {
      done(Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" }));
    },
  });
  expect(await run(line.split(" "), { stdout: full })).toEqual({
    code: 1,
    stderr: "telemetry: ENOSPC: no space left on device, write\n",
  });
});

it("SQL that is not UTF-8 is refused, and not changed", async () => {
  const stdin = new PassThrough();
  stdin.end(Buffer.from("SELECT 'caf\u00e9'", "latin1"));
  expect(await run(["query", "-"], { stdin })).toEqual({
    code: 2,
    stderr: "telemetry: standard input is not UTF-8; convert it, with iconv for example\n",
  });
});

it("a statement may begin with a comment, and is no option", async () => {
  const argv = ["query", "--limit", "1", "-- hello\nSELECT 1", "--analytics-uri", "grpc://127.0.0.1:1"];
  expect(await run(argv, {})).toEqual({
    code: 1,
    stderr:
      "telemetry: the analytics server at 127.0.0.1:1 cannot be reached; check the address, and try again in a moment\n",
  });
  expect((await run(["query", "--hello SELECT 1"], {})).stderr).toContain("unknown option '--hello SELECT 1'");
});

it("a reader of messages that has gone does not change the exit code", async () => {
  const program = createRequire(import.meta.url).resolve("telemetry-service-client/bin/telemetry");
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  // It warns that the key travels unencrypted, as that is no address of this machine alone, and then waits for an answer.
  const address = `grpc://0.0.0.0:${(server.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, [program, "query", "SELECT 1", "--analytics-uri", address], {
    env: { SVC_ANALYTICS_API_KEY: "svk_some" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  child.stderr.destroy();
  server.on("connection", () => child.kill("SIGINT"));
  expect(await once(child, "exit")).toEqual([130, null]);
});
