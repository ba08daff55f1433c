import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { ByteDictionary } from "../../src/lake/tables/columns.js";

/** 2^blocks names of one FNV-1a hash: blocks of eight bytes, each one of two that lead to the same state. */
function collidingNames(blocks: number): Buffer[] {
  let names: Buffer[] = [Buffer.alloc(0)];
  let state = 0x811c9dc5;
  for (let block = 0; block < blocks; block++) {
    const seen = new Map<number, number>();
    const bytes = new Int32Array(2);
    const text = Buffer.from(bytes.buffer);
    for (let number = 0; ; number++) {
      bytes.fill(Math.imul(number, 0x9e3779b1));
      let hash = state;
      for (const byte of text) {
        hash = Math.imul(hash ^ byte, 0x01000193);
      }
      const other = seen.get(hash);
      if (other !== undefined) {
        const pair = [Buffer.from(new Int32Array([other, other]).buffer), text];
        names = names.flatMap((name) => pair.map((last) => Buffer.concat([name, last])));
        state = hash;
        break;
      }
      seen.set(hash, bytes[0]!);
    }
  }
  return names;
}

test("names that collide under a hash without a key are found without comparing them all", () => {
  const names = collidingNames(10);
  const dictionary = new ByteDictionary();
  let reads = 0;
  const counted = (bytes: Buffer): Buffer =>
    new Proxy(bytes, {
      get: (target, key) => {
        reads++;
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  for (const [index, name] of names.entries()) {
    expect(dictionary.intern(counted(name), 0, name.length)).toBe(index);
  }
  // Each byte is read once, not once for each name before it.
  expect(reads).toBeLessThan(names.length * 2 * 80);
});

test("no two threads hash alike, nor are runs of zeros alike", async () => {
  const url = new URL("../../src/lake/tables/keyed-hash.js", import.meta.url).href;
  const code = `import("${url}").then(({ keyedHash }) => {
    const zeros = new Uint8Array(64);
    require("node:worker_threads").parentPort.postMessage(Array.from(zeros, (_, length) => keyedHash(zeros, 0, length)));
  });`;
  const hashes = async (): Promise<number[]> => {
    const [message] = (await once(new Worker(code, { eval: true }), "message")) as [number[]];
    return message;
  };
  const all = [...(await hashes()), ...(await hashes())];
  // Chance alone makes two of 128 equal in one run of half a million.
  expect(new Set(all).size).toBe(all.length);
});

test("finds bytes again wherever they lie", () => {
  const dictionary = new ByteDictionary();
  const text = Buffer.from("a name, and again: xa name, and again:");
  for (let length = 0; length < 18; length++) {
    expect(dictionary.intern(text, 0, length)).toBe(length);
    expect(dictionary.intern(text, 20, 20 + length)).toBe(length);
  }
});
