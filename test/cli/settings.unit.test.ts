/** The variables of the command line are those that docs/options.md lists for it. */
import { tmpdir } from "node:os";

import { expect, it } from "vitest";

import { options } from "../../src/runtime/config/options.js";
import { runCommand } from "../helpers/cli/run-cli.js";

/** Where it reports its own telemetry to, which no flag says. */
const withoutFlag = ["SVC_INGESTION_API_KEY", "SVC_OIDC_TOKEN_ENDPOINT", "SVC_TELEMETRY_URL"];

it("the command line reads the variables that the options name for it, and no others", async () => {
  const where = { env: {}, homeDirectory: tmpdir(), workingDirectory: tmpdir() };
  const { stdout } = await runCommand(["--help"], where);
  const commands = [...stdout.matchAll(/^ {2}([a-z]+)\b/gmu)].map(([, name = ""]) => name);
  expect(commands).toContain("query");
  const read = new Set(withoutFlag);
  for (const command of commands) {
    const { stdout: help } = await runCommand([command, "--help"], where);
    for (const [name] of help.matchAll(/\bSVC_[A-Z_]+\b/gu)) {
      read.add(name);
    }
    for (const [, sub = ""] of help.matchAll(/^ {2}([a-z]+)\b/gmu)) {
      const { stdout: more } = await runCommand([command, sub, "--help"], where);
      for (const [name] of more.matchAll(/\bSVC_[A-Z_]+\b/gu)) {
        read.add(name);
      }
    }
  }
  const named = Object.entries(options).filter(([, { roles }]) => (roles as readonly string[]).includes("cli"));
  expect([...read].toSorted()).toEqual(named.map(([name]) => name).toSorted());
});
