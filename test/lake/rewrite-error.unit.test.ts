import { expect, it } from "vitest";

import { engineHasEnded } from "../../src/lake/merge/merge-engine.js";
import { rewriteError } from "../../src/lake/rewrite/rewrite.js";

it.each([
  [engineHasEnded, "UNAVAILABLE"],
  [`Out of Memory Error: ${engineHasEnded}`, "PAYLOAD_TOO_LARGE"],
  ["IO Error: not a Parquet file", "INTERNAL"],
  ['IO Error: Could not write file "/lake/.x.merge.tmp": No space left on device', "UNAVAILABLE"],
  ['IO Error: Could not write file "/lake/.x.merge.tmp": Permission denied', "INTERNAL"],
])("a rewrite whose engine says %j fails with %s", (message, code) => {
  expect(rewriteError(new Error(message), false)).toMatchObject({ code });
});

it("an erasure goes on after its engine was killed: the error is retryable", () => {
  expect(rewriteError(new Error(engineHasEnded), false)).toMatchObject({ retryable: true });
});
