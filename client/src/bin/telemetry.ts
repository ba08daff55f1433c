#!/usr/bin/env node
/** The command line `telemetry`. */
import { readFileSync } from "node:fs";
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

// Loading modules is most of what a short query takes. Node.js 22.8 and later keep what they compiled: here, where nobody
// else can put code, unlike in the system's folder for temporary files.
const enableCompileCache: unknown = Reflect.get(nodeModule, "enableCompileCache");
if (typeof enableCompileCache === "function") {
  enableCompileCache(join(homedir(), ".cache", "telemetry-service-client"));
}
const { runCli } = await import("../cli/main.js");

const interrupted = new AbortController();
process.once("SIGINT", () => {
  // The first Ctrl-C cancels the query on the server; a second one ends the process in the usual way.
  interrupted.abort();
});

// A reader of messages that has gone, or a full disk below them, changes nothing about what the command did.
process.stderr.on("error", () => undefined);

const { version } = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as {
  version: string;
};
const code = await runCli({
  argv: process.argv.slice(2),
  env: process.env,
  terminal: {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    interrupted: interrupted.signal,
    now: Date.now,
  },
  homeDirectory: homedir(),
  workingDirectory: process.cwd(),
  version,
});
process.exit(code);
