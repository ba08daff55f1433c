/** The service in a directory whose name needs care in URLs, shells, globs and SQL. */
import { cp, mkdir, symlink } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { expect, it } from "vitest";

import {
  commandLine,
  developmentVariables,
  runProgram,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";

it("starts, stores and answers in a directory with spaces and other odd characters in its name", async () => {
  const outer = await temporaryDirectory();
  const clone = path.join(outer.directory, `it's 100%20 [new] {a,b} #x?y "q" ünï`);
  await mkdir(path.join(clone, "dist"), { recursive: true });
  await cp(fileURLToPath(new URL("../../src", import.meta.url)), path.join(clone, "dist/src"), { recursive: true });
  for (const name of ["node_modules", "migrations", "web", "package.json"]) {
    await symlink(path.resolve(name), path.join(clone, name));
  }
  const data = path.join(clone, "data");
  const monolith = await startMonolithProcess(data, [], path.join(clone, "dist/src/bin/telemetry-monolith.js"));
  try {
    const env = await developmentVariables(data);
    const sql = "SELECT count(*) > 0 AS rows FROM log_entries";
    const answer = await runProgram(commandLine, ["query", "--format", "csv", sql], { env });
    expect(answer).toMatchObject({ code: 0, stdout: "rows\ntrue\n" });
  } finally {
    await monolith.stop();
    await outer.remove();
  }
});
