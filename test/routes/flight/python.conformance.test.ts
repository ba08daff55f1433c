/** Python's ADBC driver and pyarrow against a server: what analysts arrive with. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import { addConformanceRows } from "../../helpers/flight/conformance-rows.js";

const run = promisify(execFile);
const packages = ["adbc-driver-flightsql==1.13.0", "pyarrow"];
// Compiled, this file is dist/test/routes/flight/python.conformance.test.js.
const script = fileURLToPath(new URL("../../../../test/helpers/flight/adbc.py", import.meta.url));

/** The interpreter of a virtual environment with the packages, or why there is none. */
async function python(): Promise<{ readonly path: string } | { readonly missing: string }> {
  const directory = path.join(tmpdir(), "telemetry-service-conformance");
  const interpreter = path.join(directory, "bin", "python");
  try {
    if (!existsSync(interpreter)) {
      await run("python3", ["-m", "venv", directory]);
    }
    await run(interpreter, ["-m", "pip", "install", "--quiet", ...packages]);
    return { path: interpreter };
  } catch (error) {
    return { missing: String(error).split("\n")[0] ?? "" };
  }
}

const found = await python();
if ("missing" in found) {
  process.stdout.write(`SKIPPED: Python, or its package registry, is not at hand: ${found.missing}\n`);
}

let t: TestAnalytics;

describe.skipIf("missing" in found)("ADBC and pyarrow", () => {
  beforeAll(async () => {
    t = await startTestAnalytics();
    await addConformanceRows(t);
  });

  afterAll(async () => {
    await t.stop();
  });

  it.each([
    "query",
    "types",
    "every_type",
    "schemas_agree",
    "plain_sql",
    "metadata",
    "info",
    "parameters",
    "several_rows",
    "wrong_parameters",
    "big_result",
    "empty_result",
    "cancel",
    "cancel_flight_info",
    "errors",
    "flights",
  ])("%s", async (check) => {
    const interpreter = "path" in found ? found.path : "";
    const uri = `grpc://127.0.0.1:${t.port}`;
    const outcome = await run(interpreter, [script, uri, t.key, check]).then(
      () => "passed",
      (error: unknown) => String(error),
    );
    expect(outcome).toBe("passed");
  });
});
