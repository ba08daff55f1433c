#!/usr/bin/env node
/** The command line `telemetry`. */
import { homedir } from "node:os";

import { runCli } from "../cli/main.js";
import { processEnvironment } from "../runtime/config/environment.js";
import { serviceVersion } from "../runtime/version.js";

const interrupted = new AbortController();
process.once("SIGINT", () => {
  // The first Ctrl-C cancels the query on the server; a second one ends the process in the usual way.
  interrupted.abort();
});

const code = await runCli({
  argv: process.argv.slice(2),
  env: processEnvironment(),
  terminal: {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    interrupted: interrupted.signal,
    now: Date.now,
  },
  homeDirectory: homedir(),
  workingDirectory: process.cwd(),
  version: serviceVersion(),
});
process.exit(code);
