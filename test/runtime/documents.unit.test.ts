/** Numbers and paths of the code that documents build on. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { expect, it } from "vitest";

import { maxStreams } from "../../src/routes/otlp/grpc/listener.js";
import { options } from "../../src/runtime/config/options.js";

it.each([
  ["SECURITY.md", maxStreams, /OTLP\/gRPC connection \| (\d+) at a time/u],
  ["docs/sending.md", maxStreams, /takes (\d+) calls at a time/u],
  ["docs/scaling.md", options.SVC_QUERY_TIMEOUT_SECONDS.default, /the (\d+) s that a query has by default/u],
])("%s says %i, as the code does", (file, value, said) => {
  expect(said.exec(readFileSync(file, "utf8").replaceAll(/\s+/gu, " "))?.[1]).toBe(String(value));
});

it("docs/operations.md has the addresses of docs/options.md that servers listen on", () => {
  const rows = (file: string): [string, string][] =>
    [...readFileSync(file, "utf8").matchAll(/^\| `(SVC_\w+_LISTEN)`.*?([\d.]{7,}:\d+)/gmu)].map((row) => [
      row[1]!,
      row[2]!,
    ]);
  const listeners = Object.keys(options).filter((name) => name.endsWith("_LISTEN"));
  expect(Object.fromEntries(rows("docs/operations.md"))).toEqual(Object.fromEntries(rows("docs/options.md")));
  expect(rows("docs/options.md").map(([name]) => name)).toEqual(listeners);
});

it.each(["ARCHITECTURE.md", "CONTRIBUTING.md", "web/README.md"])(
  "%s names files and folders that are there",
  (file) => {
    const paths = /`((?:bench|client|deploy|docs|migrations|src|test|web)\/[\w./-]+)`/gu;
    const named = [...readFileSync(file, "utf8").matchAll(paths)].map((match) => match[1]!);
    // A path of web/README.md begins at that folder or at the root.
    expect(named.filter((path) => !existsSync(path) && !existsSync(join(dirname(file), path)))).toEqual([]);
    expect(named).not.toEqual([]);
  },
);
