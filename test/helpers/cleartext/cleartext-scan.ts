/**
 * Searches everything that the servers of a run let out for the keys that were minted in it. Found are: a
 * whole key, also one of which only the hash is known; the beginning of a key, prefix and 16 digits; and the
 * random part of a key without its prefix. A string that merely looks like a key is none.
 */
import { createReadStream } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";

import { keyLength } from "../../../src/auth/key-string.js";
import { sha256, tappedKinds } from "./cleartext-tap.js";

/** Where a key is. The key itself is not told. */
interface Leak {
  readonly file: string;
  readonly line: number;
}

/** What a search came to. */
interface CleartextScan {
  readonly leaks: readonly Leak[];
  /** Different keys that were searched for. */
  readonly keys: number;
  /** Lines that were searched, by kind. */
  readonly lines: Readonly<Record<string, number>>;
}

const prefix = "svk_";
const checksumDigits = 6;
const randomDigits = keyLength - prefix.length - checksumDigits;
const beginningLength = prefix.length + 16;

interface Minted {
  readonly hashes: ReadonlySet<string>;
  readonly beginnings: ReadonlySet<string>;
  readonly randomParts: ReadonlySet<string>;
}

/** Searches the files of a directory that cleartext-tap.ts has written. */
export async function scanCleartext(directory: string): Promise<CleartextScan> {
  const files = await readdir(directory);
  const minted = await readMinted(
    files.filter((file) => file.endsWith(".minted")).map((file) => path.join(directory, file)),
  );
  const leaks: Leak[] = [];
  const lines: Record<string, number> = Object.fromEntries(tappedKinds.map((kind) => [kind, 0]));
  for (const file of files) {
    const kind = tappedKinds.find((known) => file.endsWith(`.${known}`));
    if (kind === undefined) {
      continue;
    }
    let line = 0;
    const input = createReadStream(path.join(directory, file), "latin1");
    for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      line++;
      if (holdsKey(text, minted)) {
        leaks.push({ file, line });
      }
    }
    lines[kind] = (lines[kind] ?? 0) + line;
  }
  return { leaks, keys: minted.hashes.size, lines };
}

async function readMinted(files: readonly string[]): Promise<Minted> {
  const hashes = new Set<string>();
  const beginnings = new Set<string>();
  const randomParts = new Set<string>();
  for (const file of files) {
    for (const line of (await readFile(file, "latin1")).split("\n")) {
      const [hash, key] = line.split(" ");
      if (hash === undefined || hash === "") {
        continue;
      }
      hashes.add(hash);
      if (key === undefined) {
        continue;
      }
      beginnings.add(key.slice(0, beginningLength));
      randomParts.add(key.slice(prefix.length, -checksumDigits));
    }
  }
  return { hashes, beginnings, randomParts };
}

function holdsKey(text: string, minted: Minted): boolean {
  for (let at = text.indexOf(prefix); at !== -1; at = text.indexOf(prefix, at + 1)) {
    if (minted.beginnings.has(text.slice(at, at + beginningLength))) {
      return true;
    }
    if (minted.hashes.has(sha256(text.slice(at, at + keyLength)))) {
      return true;
    }
  }
  for (const [run] of text.matchAll(runs)) {
    for (let from = 0; from + randomDigits <= run.length; from++) {
      if (minted.randomParts.has(run.slice(from, from + randomDigits))) {
        return true;
      }
    }
  }
  return false;
}

/** Digits of base 62, as many as the random part of a key has, or more. */
const runs = new RegExp(`[0-9A-Za-z]{${String(randomDigits)},}`, "gu");
