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

it.each([
  [["tail", "--interval", "3000000"], "--interval takes a whole number from 1 to 86400"],
  [["tail", "--interval", "0"], "--interval takes a whole number from 1 to 86400"],
  [["login", "--callback-port", "65536"], "--callback-port takes a whole number from 1 to 65535"],
])("refuses %j, which no timer or socket takes", async (args, message) => {
  const { code, stderr } = await runCommand(args, { env: {}, homeDirectory: tmpdir(), workingDirectory: tmpdir() });
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});
