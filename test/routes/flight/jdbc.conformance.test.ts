/** The Arrow Flight SQL JDBC driver against a server: what BI tools arrive with. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import { lastingDirectory } from "../../helpers/run-directory.js";
import { addConformanceRows } from "../../helpers/flight/conformance-rows.js";

const run = promisify(execFile);
const name = "flight-sql-jdbc-driver";
const version = "18.3.0";
// Compiled, this file is dist/test/routes/flight/jdbc.conformance.test.js.
const source = fileURLToPath(new URL("../../../../test/helpers/flight/Jdbc.java", import.meta.url));

/** The driver's archive, fetched once, or why there is none. */
async function driver(): Promise<{ readonly path: string } | { readonly missing: string }> {
  const directory = path.join(lastingDirectory(), "telemetry-service-conformance-jdbc");
  const archive = path.join(directory, `${name}-${version}.jar`);
  try {
    await run("java", ["-version"]);
    if (!existsSync(archive)) {
      await run("mvn", [
        "--quiet",
        "--batch-mode",
        "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
        `-Dartifact=org.apache.arrow:${name}:${version}`,
        `-DoutputDirectory=${directory}`,
      ]);
    }
    return { path: archive };
  } catch (error) {
    return { missing: String(error).split("\n")[0] ?? "" };
  }
}

const found = await driver();
if ("missing" in found) {
  process.stdout.write(`SKIPPED: Java, Maven or its registry is not at hand: ${found.missing}\n`);
}

let t: TestAnalytics;

describe.skipIf("missing" in found)("the JDBC driver", () => {
  beforeAll(async () => {
    t = await startTestAnalytics();
    await addConformanceRows(t);
  });

  afterAll(async () => {
    await t.stop();
  });

  it.each([
    "views",
    "types",
    "metadata",
    "parameters",
    "times",
    "lists",
    "big",
    "cancel",
    "timeout",
    "errors",
    "password",
  ])("%s", async (check) => {
    const outcome = await run("java", [
      "--add-opens=java.base/java.nio=ALL-UNNAMED",
      "-cp",
      "path" in found ? found.path : "",
      source,
      String(t.port),
      t.key,
      check,
    ]).then(
      () => "passed",
      (error: unknown) => String(error),
    );
    expect(outcome).toBe("passed");
  });
});
