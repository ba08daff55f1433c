/**
 * What the servers of a test run let out, and the keys that were minted in it, written to the run's own
 * directory (cleartext-watch.ts), so that all of it can be searched for all of them at the end.
 *
 * A file holds one kind of output of one test file. It is written at once and in order, so that what a
 * process said before it was killed is there.
 */
import { createHash } from "node:crypto";
import { openSync, writeSync } from "node:fs";
import path from "node:path";

import { type Logger, pino } from "pino";
import { expect, inject } from "vitest";

/** What is searched. `output` is what child processes write to stdout and stderr. */
export const tappedKinds = ["log", "response", "metrics", "output"] as const;

/** See {@link tappedKinds}. */
type TappedKind = (typeof tappedKinds)[number];

const files = new Map<string, number>();

function append(extension: string, text: string): void {
  if (text === "") {
    return;
  }
  // Files of the same name lie in several folders.
  const test = (expect.getState().testPath ?? "unknown").split("/").slice(-2).join("-");
  const name = `${path.basename(test, ".js")}.${String(process.pid)}.${extension}`;
  let file = files.get(name);
  if (file === undefined) {
    file = openSync(path.join(inject("cleartextDirectory"), name), "a", 0o600);
    files.set(name, file);
  }
  writeSync(file, text.endsWith("\n") ? text : `${text}\n`);
}

/** Keeps something that a server let out. */
export function recordOutput(kind: TappedKind, text: string): void {
  append(kind, text);
}

/** Keeps keys that were minted, in the clear. */
export function recordMinted(...keys: readonly string[]): void {
  append("minted", keys.map((key) => `${sha256(key)} ${key}\n`).join(""));
}

/** Keeps keys of which only the hash is known, in hexadecimal digits. */
export function recordMintedHashes(hashes: readonly string[]): void {
  append("minted", hashes.map((hash) => `${hash}\n`).join(""));
}

/** As the servers hash keys. */
export function sha256(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

/** A logger for servers in the test's own process: every line of every level, without any redaction. */
export function createTappedLogger(): Logger {
  const write = (line: string): void => {
    recordOutput("log", line);
  };
  return pino({ level: "trace" }, { write });
}
