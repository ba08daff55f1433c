/** The directory that queries spill to takes no more. */
import { expect, it } from "vitest";

import { createScrubber, queryError } from "../../src/query/backend/scrub.js";

it.each(["No space left on device", "Disk quota exceeded"])("is told to the caller, without its path: %s", (reason) => {
  const file = "/var/tmp/telemetry-query-x/engine-y/duckdb_temp_storage_S64K-0.tmp";
  const error = new Error(`IO Error: Could not write file "${file}": ${reason}`);
  const told = queryError(error, createScrubber([]));
  expect(told).toMatchObject({ code: "INTERNAL", cause: error });
  expect(told.publicMessage).toMatch(/^the disk that queries spill to is full; /u);
  expect(told.publicMessage).not.toContain("/");
});
