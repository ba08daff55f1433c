/** Numbers of the code that documents build on. */
import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { maxStreams } from "../../src/routes/otlp/grpc/listener.js";
import { options } from "../../src/runtime/config/options.js";

it.each([
  ["SECURITY.md", maxStreams, /has at most (\d+) calls at a time/u],
  ["docs/sending.md", maxStreams, /takes (\d+) calls at a time/u],
  ["docs/scaling.md", options.SVC_QUERY_TIMEOUT_SECONDS.default, /the (\d+) s that a query has by default/u],
])("%s says %i, as the code does", (file, value, said) => {
  expect(said.exec(readFileSync(file, "utf8").replaceAll(/\s+/gu, " "))?.[1]).toBe(String(value));
});
