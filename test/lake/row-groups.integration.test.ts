/** Some row groups of an object as a file: rows at the wanted times are the object's, and no byte of others is read. */
import { mkdtemp, open, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { crc32 } from "node:zlib";

import { DuckDBInstance } from "@duckdb/node-api";
import { afterAll, beforeAll, expect, it } from "vitest";

import { type CachedFiles, openCachedFiles } from "../../src/lake/cache/cached-files.js";
import type { NeededObject } from "../../src/lake/cache/lake-files.js";
import type { Partition } from "../../src/lake/catalogue.js";
import { rollupPathOf } from "../../src/lake/rollup/rollup.js";
import type { RemoteObjects } from "../../src/lake/store/object-store.js";
import {
  footerFile,
  groupsWithin,
  parseFooterFile,
  readFooter,
  type ReadPart,
  rowGroupFile,
} from "../../src/lake/cache/row-group-files.js";
import type { ParsedFooter } from "../../src/lake/parquet/row-groups.js";
import { rollupOf } from "../../src/query/plan-rollups.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { never } from "../helpers/never.js";

const rows = 200_000;
const rowsPerGroup = 20_480;
let directory = "";
let whole = "";
let fileBytes = 0;
let footer: ParsedFooter;
let bytesRead = 0;
let instance: DuckDBInstance;

/** From the file, as from a store. */
const read: ReadPart = async ({ start, length }, onBytes) => {
  const handle = await open(whole, "r");
  const buffer = Buffer.alloc(length);
  expect((await handle.read(buffer, 0, length, start)).bytesRead).toBe(length);
  await handle.close();
  bytesRead += length;
  const middle = length >> 1;
  await onBytes(buffer.subarray(0, middle), start);
  await onBytes(buffer.subarray(middle), start + middle);
};

async function answer(sql: string): Promise<unknown> {
  const connection = await instance.connect();
  try {
    return (await connection.runAndReadAll(sql)).getRowsJson();
  } finally {
    connection.closeSync();
  }
}

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-groups-"));
  whole = path.join(directory, "whole.parquet");
  instance = await DuckDBInstance.create(":memory:", { threads: "2" });
  // Every tenth row has no time; those come first.
  await answer(`COPY (
      SELECT CASE WHEN i % 10 = 0 THEN NULL ELSE make_timestamp_ns(i * 1000) END AS time, md5(i::VARCHAR) AS trace_id,
        CASE WHEN i % 3 = 0 THEN NULL ELSE 'message ' || i END AS msg, i % 7 AS level, [{'name': 'n' || i}] AS events
      FROM range(${rows}) AS r(i) ORDER BY time NULLS FIRST, i
    ) TO '${whole}' (FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd, ROW_GROUP_SIZE ${rowsPerGroup},
      DICTIONARY_SIZE_LIMIT ${rowsPerGroup})`);
  fileBytes = (await stat(whole)).size;
  const handle = await open(path.join(directory, "footer"), "w+");
  const owner = { path: "whole", fileBytes, rowCount: 1 };
  await footerFile(owner, (signal) => readFooter(owner, read, signal)).fill(handle, never);
  await handle.close();
  footer = parseFooterFile(await readFile(path.join(directory, "footer")));
});

afterAll(async () => {
  instance.closeSync();
  await rm(directory, { recursive: true, force: true });
});

const notCalled = (): never => {
  throw new TypeError("not called");
};

const everything = { minTimeNs: undefined, maxTimeNs: undefined };

/** The object, of which a query wants a millisecond, or what is given. */
const wholeObject = (
  wanted: NeededObject["wanted"] = { minTimeNs: 50_000_000n, maxTimeNs: 51_000_000n },
): NeededObject => ({
  path: "log_entries/audience=a/whole.parquet",
  fileBytes,
  checksum: null,
  rowCount: rows,
  level: 3,
  minTimeNs: 0n,
  maxTimeNs: BigInt(rows) * 1000n,
  wanted,
});

/** The store with the object, and how often it was read. */
function countedStore(): { readonly store: RemoteObjects; readonly reads: () => number } {
  let count = 0;
  const store: RemoteObjects = {
    read: async (_path, range, onBytes, signal) => {
      count++;
      await read(range ?? { start: 0, length: fileBytes }, onBytes, signal);
    },
    putFile: notCalled,
    verify: notCalled,
  };
  return { store, reads: () => count };
}

/** A cache in a directory of its own. */
const openCache = (
  name: string,
  o: { readonly remote: RemoteObjects; readonly origin?: RemoteObjects; readonly metrics?: Metrics },
): Promise<CachedFiles> =>
  openCachedFiles({
    directory: path.join(directory, name),
    maxBytes: 1 << 30,
    logger: createTappedLogger(),
    metrics: createMetrics(),
    ...o,
  });

it("answers like the object, for any bounds, from the row groups within", async () => {
  expect(footer.groups.length).toBe(Math.ceil(rows / rowsPerGroup));
  const random = seededRandom(7);
  let partly = 0;
  const nearlyWhole: number[] = [];
  for (let i = 0; i < 40; i++) {
    const begin = BigInt(Math.floor(random() * rows)) * 1000n;
    const minTimeNs = i % 5 === 1 ? undefined : begin;
    const maxTimeNs = i % 5 === 2 ? undefined : begin + BigInt(Math.floor(random() ** 3 * rows)) * 1000n;
    const kept = groupsWithin(footer, { minTimeNs, maxTimeNs });
    const object = wholeObject({ minTimeNs, maxTimeNs });
    const some = rowGroupFile(object, footer.groups, kept, () => Promise.resolve(footer), read);
    if (some === null) {
      nearlyWhole.push(kept.length);
      continue;
    }
    partly++;
    const file = path.join(directory, `part-${i}`);
    const handle = await open(file, "w+");
    bytesRead = 0;
    await some.fill(handle, never);
    await handle.close();
    expect(bytesRead).toBeLessThanOrEqual(some.bytes);
    expect((await stat(file)).blocks * 512).toBeLessThan(some.bytes + (1 << 20));
    const where = [
      ...(minTimeNs === undefined ? [] : [`time >= make_timestamp_ns(${minTimeNs})`]),
      ...(maxTimeNs === undefined ? [] : [`time <= make_timestamp_ns(${maxTimeNs})`]),
    ].join(" AND ");
    const sql = (from: string): string =>
      `SELECT count(*), count(msg), sum(level), bit_xor(hash(time, trace_id, msg, level, events))
       FROM read_parquet('${from}') WHERE ${where}`;
    expect(await answer(sql(file))).toEqual(await answer(sql(whole)));
    expect(await answer(`SELECT count(*) FROM read_parquet('${file}')`)).toEqual(
      await answer(`SELECT sum(num_rows)::BIGINT FROM (SELECT DISTINCT row_group_id, row_group_num_rows AS num_rows
        FROM parquet_metadata('${whole}') WHERE row_group_id IN (${kept.join(", ")}))`),
    );
  }
  expect(partly).toBeGreaterThan(20);
  expect(Math.min(...nearlyWhole)).toBeGreaterThan(footer.groups.length / 2);
});

it("keeps bloom filters, which leave out row groups", async () => {
  const object = wholeObject(everything);
  const some = rowGroupFile(object, footer.groups, [3, 5], () => Promise.resolve(footer), read);
  const file = path.join(directory, "filtered");
  const handle = await open(file, "w+");
  await some?.fill(handle, never);
  await handle.close();
  const probe = (from: string): string =>
    `SELECT row_group_id, bloom_filter_excludes FROM parquet_bloom_probe('${from}', 'trace_id', md5('77777'))`;
  const inWhole = (await answer(probe(whole))) as unknown[][];
  expect((await answer(probe(file))) as unknown[][]).toEqual([
    ["0", inWhole[3]?.[1]],
    ["1", inWhole[5]?.[1]],
  ]);
});

it("takes what it cannot tell apart for no footer", () => {
  expect(() => parseFooterFile(Buffer.from("nonsense"))).toThrow(RangeError);
  expect(groupsWithin({ groups: [{ parts: [], times: null }] }, { minTimeNs: 5n, maxTimeNs: 6n })).toEqual([0]);
});

it("makes a part again that was found damaged, whose footer nobody has at hand any more", async () => {
  const files = await openCache("cache", { remote: countedStore().store });
  const object = wholeObject();
  const first = await files.hold([object], never);
  const part = first.fileOf(object) ?? "";
  expect(path.basename(part)).toMatch(/^whole\.parquet~[0-9a-f]{24}~/u);
  const content = await readFile(part);
  // A query failed, perhaps because of this file.
  first.release(true);
  await writeFile(part, Buffer.alloc(content.length));
  // The same happens to what was removed for room while a query waited for its turn.
  const second = await files.hold([object], never);
  expect((await readFile(second.fileOf(object) ?? "")).equals(content)).toBe(true);
  second.release(false);
  await files.stop();
});

it("makes a part although the disk has changed the object's footer, and fetches that again", async () => {
  const files = await openCache("changed", { remote: countedStore().store });
  const partOf = async (millisecond: bigint): Promise<string | null> => {
    const minTimeNs = millisecond * 1_000_000n;
    const object = wholeObject({ minTimeNs, maxTimeNs: minTimeNs + 1_000_000n });
    const held = await files.hold([object], never);
    held.release(false);
    return held.fileOf(object);
  };
  const folder = path.dirname((await partOf(10n)) ?? "");
  const name = (await readdir(folder)).find((each) => each.startsWith("whole.parquet~footer~")) ?? "";
  const footerName = path.join(folder, name);
  const content = await readFile(footerName);
  const change = async (bytes: Buffer): Promise<void> => {
    await writeFile(footerName, bytes);
    await utimes(footerName, 1000, 1000);
  };
  // Noticed as a file that somebody has touched; then not, as a disk does it.
  await change(content);
  await partOf(50n);
  await change(Buffer.alloc(content.length));
  expect(await answer(`SELECT count(*) > 0 FROM read_parquet('${(await partOf(100n)) ?? ""}')`)).toEqual([[true]]);
  expect(await partOf(150n)).not.toBeNull();
  expect((await readFile(footerName)).equals(content)).toBe(true);
  await files.stop();
});

it("reads from the store itself what an object cache gives whole and wrong, before any query sees it", async () => {
  const { store, reads } = countedStore();
  const metrics = createMetrics();
  const files = await openCache("wrong", {
    remote: {
      ...store,
      read: (_path, _range, onBytes, signal) =>
        read({ start: 0, length: fileBytes }, (bytes, at) => onBytes(Buffer.alloc(bytes.length), at), signal),
    },
    origin: store,
    metrics,
  });
  const bytes = await readFile(whole);
  const object = { ...wholeObject(everything), checksum: crc32(bytes) };
  const held = await files.hold([object], never);
  expect((await readFile(held.fileOf(object) ?? "")).equals(bytes)).toBe(true);
  held.release(false);
  expect(reads()).toBe(1);
  expect(await metrics.text()).toContain("lake_cache_mismatches_total 1");
  await files.stop();
});

it.each([
  ["no footer", 0, rows],
  ["one without row groups", 8, rows],
  ["a roll-up's without row groups", 8, null],
])("reads from the store itself what an object cache gives for a footer and is %s", async (_name, kept, rowCount) => {
  const { store, reads } = countedStore();
  const metrics = createMetrics();
  const files = await openCache(`footer-${kept}-${rowCount}`, {
    remote: {
      ...store,
      read: (_path, range, onBytes, signal) => {
        const part = range ?? { start: 0, length: fileBytes };
        return read(
          part,
          (bytes, at) => {
            const isZero = (_byte: number, i: number): boolean => at + i > fileBytes / 2 && at + i < fileBytes - kept;
            return onBytes(
              Buffer.from(bytes).map((byte, i) => (isZero(byte, i) ? 0 : byte)),
              at,
            );
          },
          signal,
        );
      },
    },
    origin: store,
    metrics,
  });
  const object = { ...wholeObject(), rowCount };
  const held = await files.hold([object], never);
  const sql = `SELECT count(*) FROM read_parquet('${held.fileOf(object) ?? ""}') WHERE time BETWEEN
    make_timestamp_ns(50000000) AND make_timestamp_ns(51000000)`;
  expect(await answer(sql)).toEqual(await answer(sql.replace(/'.*?'/u, `'${whole}'`)));
  held.release(false);
  expect(reads()).toBeGreaterThan(0);
  expect(await metrics.text()).toContain("lake_cache_mismatches_total 1");
  await files.stop();
});

it("takes the footer of a roll-up from an object cache, whatever the rows of its object", async () => {
  const { store } = countedStore();
  const metrics = createMetrics();
  const files = await openCache("rollup", { remote: store, origin: { ...store, read: notCalled }, metrics });
  const { wanted, ...object } = wholeObject();
  const partition: Partition = {
    ...object,
    viewSet: "log_entries",
    audience: "a",
    rowCount: 10 * rows,
    schemaHash: "",
    rollupPath: rollupPathOf("log_entries", object.path),
    rollupBytes: fileBytes,
    rollupChecksum: null,
    attributes: "",
  };
  const rollup = rollupOf("log_entries", partition, wanted, "any");
  if (rollup === null) {
    throw new TypeError("the roll-up is not read");
  }
  const held = await files.hold([rollup], never);
  expect(held.fileOf(rollup)).toContain(rollup.path);
  held.release(false);
  expect(await metrics.text()).toContain("lake_cache_mismatches_total 0");
  await files.stop();
});

it("reads from the store itself what an object cache gave to a query that failed, once", async () => {
  const { store, reads } = countedStore();
  const files = await openCache("doubted", {
    // Right where footers are, so that it is found out by the query only.
    remote: {
      ...store,
      read: (_path, range, onBytes, signal) => {
        const part = range ?? { start: 0, length: fileBytes };
        const isFooter = part.start > fileBytes / 2;
        return read(part, (bytes, at) => onBytes(isFooter ? bytes : Buffer.alloc(bytes.length), at), signal);
      },
    },
    origin: store,
  });
  const object = wholeObject();
  const count = (file: string | null): Promise<unknown> =>
    answer(`SELECT count(msg) FROM read_parquet('${file ?? ""}') WHERE level >= 0`);
  const wrong = await files.hold([object], never);
  await expect(count(wrong.fileOf(object))).rejects.toThrow(/Error/);
  wrong.release(true);
  expect(reads()).toBe(0);
  const right = await files.hold([object], never);
  await expect(count(right.fileOf(object))).resolves.toBeDefined();
  const before = reads();
  expect(before).toBeGreaterThan(0);
  right.release(true);
  (await files.hold([object], never)).release(false);
  expect(reads()).toBe(before);
  await files.stop();
});
