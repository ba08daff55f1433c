/** Programs from PyPI, for tests against what nobody here wrote. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

import { oneAtATime } from "./one-at-a-time.js";
import { lastingDirectory } from "./run-directory.js";

const run = promisify(execFile);

/** A directory with `python` and the programs of packages, or why there is none. */
type PythonPrograms = { readonly bin: string } | { readonly missing: string };

/**
 * Installs packages into a virtual environment that is found again.
 * Says on standard output that tests are skipped when it cannot.
 * @param environment names another one than that of most tests, for packages that others do not stand beside them
 */
export async function pythonPrograms(packages: readonly string[], environment = ""): Promise<PythonPrograms> {
  const directory = path.join(lastingDirectory(), `telemetry-service-conformance${environment}`);
  const bin = path.join(directory, "bin");
  try {
    await oneAtATime(`${directory}.lock`, async () => {
      if (!existsSync(path.join(bin, "python"))) {
        await run("python3", ["-m", "venv", directory]);
      }
      await run(path.join(bin, "python"), ["-m", "pip", "install", "--quiet", ...packages]);
    });
    return { bin };
  } catch (error) {
    const missing = String(error).split("\n")[0] ?? "";
    process.stdout.write(`SKIPPED: Python, or its package registry, is not at hand: ${missing}\n`);
    return { missing };
  }
}
