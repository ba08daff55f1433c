/** pyarrow reads the lake by docs/schema.md alone, and finds what Flight SQL gives. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { beforeAll, describe, expect, it } from "vitest";

import { type OpenFormatWorld, startOpenFormatWorld, tableNames, unstamped } from "../helpers/lake/open-format.js";
import { pythonPrograms } from "../helpers/python.js";

const run = promisify(execFile);
// Compiled, this file is dist/test/lake/open-format.conformance.test.js.
const compare = fileURLToPath(new URL("../../../test/helpers/lake/open_format.py", import.meta.url));

const found = await pythonPrograms(["pyarrow"]);

describe.skipIf("missing" in found)("pyarrow", () => {
  let world: OpenFormatWorld;

  beforeAll(async () => {
    world = await startOpenFormatWorld();
    return () => world.stop();
  });

  it.each(tableNames)("reads %s", async (table) => {
    const interpreter = "bin" in found ? path.join(found.bin, "python") : "";
    const objects = await world.objectsFile(table);
    const script = `${objects}.py`;
    await writeFile(script, world.localized(world.guide.python, table, objects));
    const outcome = await run(interpreter, [
      compare,
      script,
      table,
      `grpc://127.0.0.1:${world.port}`,
      world.key,
      unstamped,
    ]).then(
      () => "passed",
      (error: unknown) => String(error),
    );
    expect(outcome).toBe("passed");
  });
});
