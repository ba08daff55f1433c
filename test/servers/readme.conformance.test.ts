/**
 * The commands of the README, word for word, in a fresh clone of what is committed: what it says that they print, they
 * print, and what they send is found. On the ports that they name, so nothing else may listen there.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { pythonPrograms } from "../helpers/python.js";
import { until } from "../helpers/until.js";

const run = promisify(execFile);
const readme = readFileSync("README.md", "utf8");
/** Blocks of a section, by language. */
function blocks(section: string, language: string): string[] {
  const text = readme.split(/^(?=#)/mu).find((part) => part.startsWith(`${section}\n`)) ?? "";
  return [...text.matchAll(/^```(\w*)\n([^`]*)^```$/gmu)]
    .filter(([, found]) => found === language)
    .map(([, , block = ""]) => block);
}

let directory: string;
let clone: string;
let service: ChildProcess;
let printed = "";

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "readme-"));
  clone = path.join(directory, "telemetry-service");
  await run("git", ["clone", "--quiet", ".", clone]);
  const [start = ""] = blocks("# telemetry-service", "sh")[0]?.split("\n") ?? [];
  // Ctrl-C goes to a group of processes.
  service = spawn("sh", ["-c", start], { cwd: clone, detached: true, stdio: ["ignore", "pipe", "inherit"] });
  service.stdout?.on("data", (chunk: Buffer) => {
    printed += chunk.toString();
  });
  await until(() => printed.includes("Ctrl-C stops the service") || service.exitCode !== null, 250_000);
});

afterAll(async () => {
  const ended = once(service, "exit");
  process.kill(-(service.pid ?? 0), "SIGINT");
  await ended;
  await rm(directory, { recursive: true, maxRetries: 3 });
});

/** Runs a block as somebody in a shell would. */
async function shell(script: string, programs = ""): Promise<string> {
  const PATH = `${programs}:${process.env["PATH"] ?? ""}`;
  const { stdout } = await run("bash", ["-euo", "pipefail", "-c", script], {
    cwd: clone,
    env: { ...process.env, PATH },
  });
  return stdout;
}

describe("the README's commands", () => {
  it("start what it shows", () => {
    expect(service.spawnargs.at(-1)).toMatch(/^npx -y pnpm@12 start\b/u);
    const [shown = ""] = blocks("# telemetry-service", "");
    const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { readonly version: string };
    const lines = shown
      .replace("<version>", version)
      .split("\n")
      .filter((line) => line !== "" && !line.includes("..."));
    expect(lines.length).toBeGreaterThan(4);
    expect(lines.filter((line) => !printed.includes(`${line}\n`))).toEqual([]);
  });

  it("send what an application in Python logs, and find it", async () => {
    const found = await pythonPrograms(["pip"]);
    const programs = "missing" in found ? "" : found.bin;
    await writeFile(path.join(clone, "app.py"), 'import logging\nlogging.getLogger("shop").error("sold out")\n');
    for (const block of blocks("## Send", "sh")) {
      await shell(block, programs);
    }
    const [block = ""] = blocks("## Query", "sh");
    await until(async () => (await shell(block)).includes("sold out"));
    expect(await readFile(path.join(clone, "measures.csv"), "utf8")).toMatch(/^time,/u);
  });
});
