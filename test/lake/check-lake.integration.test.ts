/** Checks and repairs of a lake that we have damaged. */
import { randomUUID } from "node:crypto";
import {
  chmod,
  copyFile,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  truncate,
  unlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import path from "node:path";

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { checkLake, type LakeCheck } from "../../src/lake/check/check-lake.js";
import type { LakeReport } from "../../src/lake/check/lake-report.js";
import { runTask } from "../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { isOutage, isRefused } from "../../src/lake/bad-objects.js";
import type { ObjectStore } from "../../src/lake/store/object-store.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { onBrokenDisk } from "../helpers/lake/broken-disk.js";
import { changeBytes } from "../helpers/lake/change-bytes.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { storeWith } from "../helpers/lake/store-with.js";
import { addAged, askErasure, askTask, publishedValues, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
  // Somebody has looked at the clock lately.
  await lab.sql`update lake_state set seen_at = now()`;
});
afterEach(() => lab.stop());

async function add(
  name: string,
  audience: string | null = "a",
): Promise<{ readonly path: string; readonly file: string }> {
  const rowsSql = `SELECT make_timestamp_ns(1) AS time, '${name}-' || range AS msg FROM range(5000)`;
  const { path: relative } = await addAged(lab, { table: "log_entries", audience, rowsSql });
  return { path: relative, file: path.join(lab.lake.directory, relative) };
}

async function check(o: Partial<LakeCheck> = {}): Promise<LakeReport> {
  return checkLake(lab.context, { repair: false, deep: false, ...o });
}

const problems = (report: LakeReport): string[] =>
  report.problems.map(({ kind, path: where, mended }) => `${kind} ${where}${mended ? " mended" : ""}`).toSorted();

async function age(file: string): Promise<void> {
  const old = new Date(Date.now() - 2 * 3_600_000);
  await utimes(file, old, old);
}

const rows = async (): Promise<number> => (await publishedValues(lab, "log_entries", "msg")).length;

it("finds nothing wrong with a lake that is well, whatever was replaced a moment ago", async () => {
  await add("one");
  await add("two", null);
  const retired = await add("retired");
  await lab.sql`with gone as (delete from lakehouse_partitions where path = ${retired.path} returning path, file_bytes)
    insert into retired_objects (path, file_bytes) select path, file_bytes from gone`;
  await age(retired.file);
  const fresh = path.join(path.dirname(retired.file), "fresh.l0.parquet");
  await writeFile(fresh, "about to be published");
  for (const deep of [false, true]) {
    expect(await check({ repair: true, deep })).toMatchObject({
      counts: { objects: 2, rows: 10_000, mended: 0 },
      problems: [],
      notes: [],
    });
  }
  expect(await readFile(fresh, "utf8")).toBe("about to be published");
});

it.each([false, true])("takes no object for an orphan that is removed while it checks (repair: %s)", async (repair) => {
  const replaced = await add("replaced");
  await add("stands");
  await lab.sql`delete from lakehouse_partitions where path = ${replaced.path}`;
  await age(replaced.file);
  const { store } = lab.context;
  // The sweep of what was replaced comes when the store was listed.
  const list: ObjectStore["list"] = async function* (prefix) {
    for await (const object of store.list(prefix)) {
      yield object;
    }
    if (prefix === "log_entries") {
      await rm(replaced.file);
    }
  };
  const report = await checkLake({ ...lab.context, store: storeWith(store, { list }) }, { repair, deep: false });
  expect(report).toMatchObject({ counts: { objects: 1, orphan: 0, mended: 0 }, problems: [], notes: [] });
});

it("tells what is missing, broken, of another size or number of rows, and orphaned; a repair mends what it can", async () => {
  const good = await add("good");
  const missing = await add("missing");
  const broken = await add("broken");
  const longer = await add("longer");
  const fewer = await add("fewer");
  await unlink(missing.file);
  await truncate(broken.file, 1000);
  await lab.sql`update lakehouse_partitions set file_bytes = file_bytes + 1 where path = ${longer.path}`;
  await lab.sql`update lakehouse_partitions set row_count = 4999 where path = ${fewer.path}`;
  const orphan = path.join(path.dirname(good.file), `${randomUUID()}.l0.parquet`);
  await copyFile(good.file, orphan);
  await age(orphan);
  const orphanPath = path.relative(lab.lake.directory, orphan);
  const told = [
    `missing ${missing.path}`,
    `orphan ${orphanPath}`,
    `unreadable ${broken.path}`,
    `wrong_rows ${fewer.path}`,
    `wrong_size ${broken.path}`,
    `wrong_size ${longer.path}`,
  ];
  const report = await check();
  expect(problems(report)).toEqual(told.toSorted());
  expect(report.counts).toMatchObject({
    missing: 1,
    unreadable: 1,
    wrong_rows: 1,
    wrong_size: 2,
    orphan: 1,
    mended: 0,
  });
  expect(JSON.stringify(report)).not.toContain(lab.lake.directory);
  expect(report.problems.map(({ detail }) => detail)).toContainEqual(expect.stringContaining("'the object'"));
  // Nothing was done, so it is all there still.
  expect(problems(await check())).toEqual(told.toSorted());

  const repaired = await check({ repair: true });
  expect(problems(repaired).filter((problem) => problem.endsWith("mended"))).toEqual([
    `missing ${missing.path} mended`,
    `orphan ${orphanPath} mended`,
    `unreadable ${broken.path} mended`,
  ]);
  expect(await rows()).toBe(15_000);
  // Told again, never forgotten, and its object is no orphan.
  await age(broken.file);
  await sweepOrphans(lab.sql, lab.context.store, { nowMs: Date.now() });
  expect(problems(await check({ repair: true }))).toEqual(
    [`lost ${broken.path}`, `lost ${missing.path}`, `wrong_rows ${fewer.path}`, `wrong_size ${longer.path}`].toSorted(),
  );
  expect(await readdir(path.dirname(broken.file))).toContain(path.basename(broken.file));
});

it("puts back what has its object again", async () => {
  const { file, path: relative } = await add("one");
  const [before] = await lab.sql`select * from lakehouse_partitions`;
  await rename(file, `${lab.lake.directory}/aside`);
  await check({ repair: true });
  expect(await lab.sql`select from lakehouse_partitions`).toHaveLength(0);
  await rename(`${lab.lake.directory}/aside`, file);
  expect(problems(await check())).toEqual([`returned ${relative}`]);
  expect(problems(await check({ repair: true }))).toEqual([`returned ${relative} mended`]);
  expect(await lab.sql`select * from lakehouse_partitions`).toEqual([before]);
  expect(await check()).toMatchObject({ problems: [] });
});

it("tells of an object that the system does not let it read, and leaves it in the catalogue", async () => {
  const { path: relative } = await add("one");
  await add("two");
  const { store } = lab.context;
  // As when its mount goes away right after it was listed.
  const gone = storeWith(store, {
    localPath: (where) => `${store.localPath(where)}${where === relative ? ".gone" : ""}`,
    remote: null,
  });
  for (const deep of [false, true]) {
    const report = await checkLake({ ...lab.context, store: gone }, { repair: true, deep });
    expect(problems(report)).toEqual([`unreadable ${relative}`]);
    expect(await rows()).toBe(10_000);
  }
});

it("goes on to the other objects when the disk does not give back bytes that no row needs", async () => {
  const { path: relative } = await add("one");
  const { path: changed, file } = await add("two");
  await changeBytes(file);
  const report = await onBrokenDisk(path.join(lab.lake.directory, relative), () => check({ deep: true, repair: true }));
  expect(problems(report)).toEqual([`unreadable ${relative}`, `wrong_checksum ${changed}`].toSorted());
  expect(report.problems.map(({ detail }) => detail)).toContain("EIO: i/o error, read");
  expect(await rows()).toBe(10_000);
});

it.skipIf(process.getuid?.() === 0)("leaves objects in the catalogue that it has no right to read", async () => {
  const { file, path: relative } = await add("one");
  await chmod(file, 0);
  expect(problems(await check({ repair: true }))).toEqual([`unreadable ${relative}`]);
  await chmod(file, 0o640);
  expect(await check({ repair: true })).toMatchObject({ problems: [] });
});

it.each([
  'IO Error: Cannot open file "/lake/x.parquet": Permission denied',
  'IO Error: Could not read from file "/lake/x.parquet": Input/output error',
  'IO Error: Could not read from file "/lake/x.parquet": Stale file handle',
])("takes no object for broken that the system refuses: %s", (message) => {
  expect(isRefused(new Error(message))).toBe(true);
});

it.each([
  'IO Error: Could not read enough bytes from file "/lake/x.parquet": attempted to read 9 bytes from location 4',
  "Invalid Input Error: Footer length error in file '/lake/x.parquet'",
])("takes an object for broken that is: %s", (message) => {
  expect(isRefused(new Error(message))).toBe(false);
});

it("puts back an object that was restored with its old time, once it can be read", async () => {
  const { file, path: relative } = await add("one");
  await age(file);
  const bytes = await readFile(file);
  const broken = Buffer.from(bytes);
  // The footer at the end is whole.
  broken.fill(0xff, 8, Math.floor(bytes.length / 2));
  await writeFile(file, broken);
  expect(problems(await check({ deep: true, repair: true }))).toEqual([`unreadable ${relative} mended`]);
  expect(problems(await check({ repair: true }))).toEqual([`lost ${relative}`]);
  await writeFile(file, bytes);
  await age(file);
  expect(problems(await check({ repair: true }))).toEqual([`returned ${relative} mended`]);
  expect(await rows()).toBe(5000);
});

describe("rows that are erased while their object is lost", () => {
  const shop = { audience: "a", where: { service: "shop" } };
  const erase = async (request: Parameters<typeof askErasure>[1]): Promise<string> => {
    const taskId = await askErasure(lab, request);
    await runTask(taskContext(lab), taskId);
    return taskId;
  };
  const aside = () => `${lab.lake.directory}/aside`;
  async function lose(audience: string | null, services: readonly string[]): Promise<string> {
    const rowsSql = services.map((name) => `SELECT make_timestamp_ns(1) AS time, '${name}' AS service_name`);
    const { path: relative } = await addAged(lab, {
      table: "log_entries",
      audience,
      rowsSql: rowsSql.join(" UNION ALL "),
    });
    await rename(path.join(lab.lake.directory, relative), aside());
    await check({ repair: true });
    return relative;
  }
  const services = () => publishedValues(lab, "log_entries", "service_name");

  it.each(["a", null])("do not return with it (audience %s)", async (audience) => {
    await erase({ audience: audience ?? "public", where: { service: "bar" } });
    const lost = await lose(audience, ["shop", "bar", "cafe", "cafe", "tea"]);
    // Whatever the clock of the database says: it may have been set right since.
    await lab.sql`update lost_partitions set lost_at = now() + interval '2 minutes'`;
    const request = { audience: audience ?? "public", where: { service: "shop" } };
    expect(await taskRow(lab, await erase(request))).toMatchObject({ state: "done", rows: 0 });
    // One that was cut off after this table goes on later.
    const running = await askErasure(lab, { ...request, where: { service: "tea" }, end_ns: "2" });
    await lab.sql`update lake_tasks set state = 'running' where task_id = ${running}`;
    await erase({ audience: "b", where: { service: "cafe" } });
    await rename(aside(), path.join(lab.lake.directory, lost));
    const seen: string[][] = [];
    const at = async (): Promise<void> => void seen.push(await services());
    const report = await checkLake({ ...lab.context, at }, { repair: true, deep: false });
    expect(report.problems).toMatchObject([
      { kind: "returned", mended: true, detail: "the object is back; rows that were erased meanwhile: 2" },
    ]);
    expect(await services()).toEqual(["bar", "cafe", "cafe"]);
    expect(seen.length).toBeGreaterThan(2);
    expect(seen.flat()).not.toEqual(expect.arrayContaining([expect.stringMatching(/shop|tea/u)]));
    expect(await lab.sql`select path from retired_objects`).toEqual([{ path: lost }]);
    expect(await check({ repair: true })).toMatchObject({ problems: [] });
  });

  it("keep no other object waiting when it comes back damaged, or is of a newer version", async () => {
    const damaged = await lose("a", ["shop", "bar"]);
    const file = path.join(lab.lake.directory, damaged);
    const bytes = await readFile(aside());
    await unlink(aside());
    const newer = await lose("a", ["shop", "cafe"]);
    await erase(shop);
    // Its first pages are at the front, its footer is whole.
    await writeFile(file, bytes.fill(0xff, 4, 200));
    const newerFile = path.join(lab.lake.directory, newer);
    await lab.duck(
      `COPY (SELECT *, 1 AS of_tomorrow FROM read_parquet('${aside()}', hive_partitioning = false)) TO '${newerFile}' (FORMAT parquet)`,
    );
    const { length } = await readFile(newerFile);
    await lab.sql`update lost_partitions set partition = partition || jsonb_build_object('file_bytes', ${length}::int,
      'schema_hash', ${String.raw`\x01`}::text, 'checksum', null) where partition ->> 'path' = ${newer}`;
    const { path: gone } = await addAged(lab, {
      table: "spans",
      audience: "a",
      rowsSql: "SELECT make_timestamp_ns(1) AS time",
    });
    await unlink(path.join(lab.lake.directory, gone));
    const report = await check({ repair: true });
    expect(problems(report).toSorted()).toEqual(
      [`lost ${damaged}`, `missing ${gone} mended`, `returned ${newer}`].toSorted(),
    );
    expect(report.problems.find(({ kind }) => kind === "returned")?.detail).toContain("A newer version wrote");
  });

  it("leave nothing where they were all that it had", async () => {
    const lost = await lose("a", ["shop"]);
    await erase(shop);
    await erase({ audience: "a", where: { trace: "7".repeat(32) } });
    await rename(aside(), path.join(lab.lake.directory, lost));
    expect(problems(await check({ repair: true }))).toEqual([`returned ${lost} mended`]);
    expect(await services()).toEqual([]);
    expect(await check({ repair: true })).toMatchObject({ counts: { objects: 0 }, problems: [] });
  });

  it("stay away when another erasure has ended before they are back", async () => {
    const lost = await lose("a", ["shop", "bar"]);
    await erase(shop);
    await rename(aside(), path.join(lab.lake.directory, lost));
    let erasing: Promise<string> | null = null;
    const at = async (point: string): Promise<void> => {
      if (point === "written" && erasing === null) {
        erasing = askErasure(lab, { audience: "a", where: { service: "bar" } });
        await lab.sql`update lake_tasks set state = 'done', finished_at = now() where task_id = ${await erasing}`;
      }
    };
    const report = await checkLake({ ...lab.context, at }, { repair: true, deep: false });
    expect(problems(report)).toEqual([`returned ${lost}`]);
    expect(await services()).toEqual([]);
    expect(problems(await check({ repair: true }))).toEqual([`returned ${lost} mended`]);
    expect(await services()).toEqual([]);
  });
});

it("finds by reading every value what footers do not show", async () => {
  const { file, path: relative } = await add("one");
  const bytes = await readFile(file);
  // The footer at the end is whole.
  bytes.fill(0xff, 8, Math.floor(bytes.length / 2));
  await writeFile(file, bytes);
  expect(problems(await check())).toEqual([]);
  expect(problems(await check({ deep: true }))).toEqual([`unreadable ${relative}`]);
});

it("tells a change after merges, too, which leave that object and take the others", async () => {
  await add("one");
  const { path: changed, file } = await add("two");
  await add("three");
  await changeBytes(file);
  const merged = await mergePartitions(lab.context, mergeAll);
  expect(merged.map(({ action }) => action).toSorted()).toEqual(["created", "replaced", "replaced", "unreadable"]);
  expect(problems(await check({ deep: true }))).toEqual([`wrong_checksum ${changed}`]);
  expect(await rows()).toBe(15_000);
});

it("finds by checksums what every value can be read of, and is not what was written", async () => {
  const { file, path: relative } = await add("one");
  const { path: unknown, file: old } = await add("two");
  await lab.sql`update lakehouse_partitions set checksum = null where path = ${unknown}`;
  for (const each of [file, old]) {
    await changeBytes(each);
  }
  expect(problems(await check())).toEqual([]);
  const report = await check({ deep: true, repair: true });
  expect(problems(report)).toEqual([`wrong_checksum ${relative}`]);
  expect(report.counts).toMatchObject({ wrong_checksum: 1, mended: 0 });
  expect(await rows()).toBe(10_000);

  await rename(file, `${lab.lake.directory}/aside`);
  await check({ repair: true });
  await rename(`${lab.lake.directory}/aside`, file);
  expect(problems(await check({ repair: true }))).toEqual([`lost ${relative}`]);
});

it("checks nothing in a store of another database, or one that is not mounted", async () => {
  await add("one");
  await check();
  await rm(path.join(lab.lake.directory, "lake-id"), { recursive: true });
  await expect(check({ repair: true })).rejects.toThrow(/not mounted/u);
  await mkdir(path.join(lab.lake.directory, "lake-id"));
  await writeFile(path.join(lab.lake.directory, "lake-id", randomUUID()), "");
  await expect(check({ repair: true })).rejects.toThrow(/belongs to another database/u);
  expect(await lab.sql`select from lakehouse_partitions`).toHaveLength(1);
});

it("waits for a store that fails while it looks for orphans, and ends when it is cancelled", async () => {
  const { file } = await add("one");
  for (const name of ["x", "y"]) {
    const orphan = path.join(path.dirname(file), `${name}.l0.parquet`);
    await writeFile(orphan, "");
    await age(orphan);
  }
  const fails = vi.fn<ObjectStore["size"]>(() =>
    Promise.reject(new ServiceError("UNAVAILABLE", "the object store cannot be read")),
  );
  const away = { ...lab.context, store: storeWith(lab.context.store, { size: fails }) };
  await expect(checkLake(away, { repair: false, deep: false })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(fails).toHaveBeenCalledTimes(1);
  const size = vi.fn<ObjectStore["size"]>(() => Promise.resolve(0));
  const given = {
    ...lab.context,
    store: storeWith(lab.context.store, { size }),
    cancelled: () => size.mock.calls.length > 0,
  };
  await expect(checkLake(given, { repair: false, deep: false })).rejects.toMatchObject({ code: "CANCELLED" });
  expect(size).toHaveBeenCalledTimes(1);
});

it("leaves orphans alone while the clock cannot be trusted", async () => {
  const { file } = await add("one");
  const orphan = path.join(path.dirname(file), "x.l0.parquet");
  await writeFile(orphan, "");
  await age(orphan);
  await lab.sql`update lake_state set seen_at = now() - interval '3 hours'`;
  const report = await check({ repair: true });
  expect(report.notes).toEqual([
    expect.stringMatching(/Orphans were left: the database is new, its clock has jumped, or nobody looked/u),
  ]);
  expect(report.counts).toMatchObject({ orphan: 1, mended: 0 });
});

it("goes on when an orphan cannot be removed, and says why it stays", async () => {
  const { file } = await add("one");
  const orphanOf = async (name: string): Promise<string> => {
    const orphan = path.join(path.dirname(file), name);
    await writeFile(orphan, "x");
    await age(orphan);
    return path.relative(lab.lake.directory, orphan);
  };
  // The store lists it and takes no such name.
  const refused = await orphanOf("copy of one.parquet");
  const denied = await orphanOf("denied.l0.parquet");
  const removed = await orphanOf("removed.l0.parquet");
  const rowsSql = "SELECT make_timestamp_ns(1) AS time";
  const { path: missing } = await addAged(lab, { table: "spans", audience: "a", rowsSql });
  await unlink(path.join(lab.lake.directory, missing));
  const { store } = lab.context;
  const remove = store.remove.bind(store);
  vi.spyOn(store, "remove").mockImplementation(async (where) => {
    if (where === denied) {
      const cause = Object.assign(new Error(`EACCES: ${lab.lake.directory}`), { code: "EACCES" });
      throw new ServiceError("UNAVAILABLE", "the object store cannot remove an object", { cause });
    }
    await remove(where);
  });
  const report = await check({ repair: true });
  expect(problems(report)).toEqual(
    [`missing ${missing} mended`, `orphan ${denied}`, `orphan ${refused}`, `orphan ${removed} mended`].toSorted(),
  );
  expect(report.counts).toMatchObject({ orphan: 3, mended: 2 });
  const detailOf = (where: string) => report.problems.find((problem) => problem.path === where)?.detail;
  expect(detailOf(refused)).toBe("1 bytes that nothing names; it stays: not a path of the object store");
  expect(detailOf(denied)).toBe(
    "1 bytes that nothing names; it stays: the object store cannot remove an object (EACCES)",
  );
  expect(detailOf(removed)).toBe("1 bytes that nothing names");
});

it("keeps its report with the task, and the audit has its counts", async () => {
  const { file } = await add("one");
  await unlink(file);
  const taskId = await askTask(lab, "check", { repair: true, deep: false });
  await runTask(taskContext(lab), taskId);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", report: { counts: { missing: 1, mended: 1 } } });
  const [line] = await lab.sql`select action, details from audit_log`;
  expect(line).toMatchObject({ action: "lake_check.done", details: { missing: 1, mended: 1 } });
});

it("takes no object for broken that this machine has no room to read", async () => {
  await add("one");
  await add("two");
  const { store } = lab.context;
  const notCalled = (): never => {
    throw new TypeError("not called");
  };
  const far: ObjectStore = {
    uri: store.uri,
    // Marks of the lake, no objects.
    put: (name, chunks) => (name.startsWith("lake-") ? store.put(name, chunks) : notCalled()),
    putParts: notCalled,
    remove: (name) => (name.startsWith("lake-") ? store.remove(name) : notCalled()),
    probe: notCalled,
    probeReads: notCalled,
    size: notCalled,
    list: (prefix) => store.list(prefix),
    localPath: () => null,
    remote: { read: notCalled, putFile: notCalled, verify: notCalled },
  };
  await check();
  // No directory can be made below a file.
  const root = path.join(lab.context.limits.tempDirectory, "full");
  await mkdir(path.dirname(root), { recursive: true });
  await writeFile(root, "");
  for (const deep of [false, true]) {
    await expect(checkLake({ ...lab.context, store: far, root }, { repair: true, deep })).rejects.toMatchObject({
      code: "INTERNAL",
    });
    expect(await rows()).toBe(10_000);
  }
});

it.each(["Out of Memory Error: failed to allocate", "the process that merges has ended"])(
  "takes no object for broken because of %s",
  (message) => {
    expect(isOutage(new Error(message))).toBe(true);
    expect(isOutage(new Error("Invalid Input Error: No magic bytes found at end of file"))).toBe(false);
  },
);
