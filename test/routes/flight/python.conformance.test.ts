/** Python's ADBC driver and pyarrow against a server: what analysts arrive with. */
import { execFile } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { pythonPrograms } from "../../helpers/python.js";
import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import { addConformanceRows } from "../../helpers/flight/conformance-rows.js";

const run = promisify(execFile);
const packages = ["adbc-driver-flightsql==1.13.0", "pyarrow"];
// Compiled, this file is dist/test/routes/flight/python.conformance.test.js.
const script = fileURLToPath(new URL("../../../../test/helpers/flight/adbc.py", import.meta.url));

const found = await pythonPrograms(packages);

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
    "session",
    "errors",
    "flights",
  ])("%s", async (check) => {
    const interpreter = "bin" in found ? path.join(found.bin, "python") : "";
    const uri = `grpc://127.0.0.1:${t.port}`;
    const outcome = await run(interpreter, [script, uri, t.key, check]).then(
      () => "passed",
      (error: unknown) => String(error),
    );
    expect(outcome).toBe("passed");
  });
});
