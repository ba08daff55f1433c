/** Programs that Go builds from its module proxy, for tests against what nobody here wrote. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

import { oneAtATime } from "./one-at-a-time.js";
import { lastingDirectory } from "./run-directory.js";

const run = promisify(execFile);

/**
 * Builds a program once, and finds it again.
 * @param source the path of its package, whose last part names the program. @param version as `v1.8.0`
 * @returns its file; null, and a line that says so, where Go or its modules are not at hand
 */
export async function goProgram(source: string, version: string): Promise<string | null> {
  const name = path.basename(source);
  const directory = path.join(lastingDirectory(), `telemetry-service-conformance-${name}-${version}`);
  const program = path.join(directory, name);
  try {
    await oneAtATime(`${directory}.lock`, async () => {
      if (!existsSync(program)) {
        await mkdir(directory, { recursive: true });
        const env = { ...process.env, GOBIN: directory, GOFLAGS: "-mod=mod" };
        await run("go", ["install", `${source}@${version}`], { env });
      }
    });
    return program;
  } catch (error) {
    const [missing] = String(error).split("\n");
    process.stdout.write(`SKIPPED: no ${name}, since Go or its modules are not at hand: ${missing}\n`);
    return null;
  }
}
