/** Power that fails: what was written and never synced is gone, and of the lake nothing is missing that was answered for. */
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { open, readdir, readFile } from "node:fs/promises";
import path from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { checkLake } from "../../src/lake/check/check-lake.js";
import { runTask } from "../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { retirePartitions, sweepRetired } from "../../src/lake/retire.js";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import { commitLogs } from "../helpers/lake/lake-commit.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, askErasure, killedChild, publishedValues, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";
import { type PowerSupply, watchPower } from "../helpers/lake/power-supply.js";
import { protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { until } from "../helpers/until.js";

let lab: MergeLab;
let power: PowerSupply | null = null;
beforeEach(async () => {
  lab = await startMergeLab();
  await lab.sql`update lake_state set seen_at = now()`;
});
afterEach(async () => {
  power?.stop();
  power = null;
  await lab.stop();
});

async function watch(): Promise<PowerSupply> {
  power = await watchPower(lab.lake.directory);
  return power;
}

const sent = (mark: string, audience = "a") => ({ audience, body: protobufLogs(mark, 3).toString("base64") });
const told = (...marks: string[]): string[] => marks.flatMap((mark) => [0, 1, 2].map((n) => `${mark} ${n}`)).toSorted();
const messages = (): Promise<string[]> => publishedValues(lab, "log_entries", "msg");

/** What the catalogue names is there, whole, and nothing else once maintenance has swept. */
async function expectWell(): Promise<void> {
  await sweepOrphans(lab.sql, lab.context.store, { nowMs: Date.now() + 7_200_000 });
  const report = await checkLake(lab.context, { repair: false, deep: true });
  expect(report.problems).toEqual([]);
}

describe("what is not synced", () => {
  const inLake = (name: string): string => path.join(lab.lake.directory, name);

  it("is gone afterwards: bytes, names, and names of directories", async () => {
    mkdirSync(inLake("before"));
    writeFileSync(inLake("before/kept"), "kept");
    const supply = await watch();
    writeFileSync(inLake("before/unnamed"), "its directory is not synced");
    appendFileSync(inLake("before/kept"), ", and more");
    mkdirSync(inLake("made"));
    const handle = await open(inLake("made/file"), "wx");
    await handle.writeFile("synced, below a directory that is not");
    await handle.sync();
    await handle.close();
    supply.fail();
    expect(await readdir(lab.lake.directory)).toEqual(["before"]);
    expect(await readdir(inLake("before"))).toEqual(["kept"]);
    expect(await readFile(inLake("before/kept"), "utf8")).toBe("kept");
  });

  it("is not gone once its file and its directory are", async () => {
    const supply = await watch();
    for (const [name, synced] of [
      ["whole", true],
      ["empty", false],
    ] as const) {
      const handle = await open(inLake(name), "wx");
      await handle.writeFile("content");
      await (synced ? handle.datasync() : undefined);
      await handle.close();
    }
    const directory = await open(lab.lake.directory, "r");
    await directory.sync();
    await directory.close();
    supply.fail();
    expect(await readFile(inLake("whole"), "utf8")).toBe("content");
    expect(await readFile(inLake("empty"), "utf8")).toBe("");
  });
});

describe("a commit", () => {
  it("that was answered is there", async () => {
    const supply = await watch();
    await commitLogs(lab.sql, lab.context.store, [sent("first"), sent("other", "b")]);
    await commitLogs(lab.sql, lab.context.store, [sent("second")]);
    supply.fail();
    expect(await messages()).toEqual(told("first", "second", "other"));
    await expectWell();
  });

  it("is there also below directories whose maker died before it synced them", async () => {
    const supply = await watch();
    const args = [lab.connectionString, lab.lake.uri, JSON.stringify([sent("died")])];
    await killedChild("./lake-commit-child.js", "sync", 1, args);
    // As another process would: one that has made nothing yet.
    await commitLogs(lab.sql, await openObjectStore(`${lab.lake.uri}/`), [sent("answered")]);
    supply.fail();
    expect(await messages()).toEqual(told("answered"));
    await until(async () => {
      const sessions = await lab.sql`select from pg_stat_activity
        where application_name = 'commit-child' and datname = current_database()`;
      return sessions.length === 0;
    });
    await expectWell();
  });

  it("that was not answered leaves nothing that is published", async () => {
    const supply = await watch();
    const failing = commitLogs(lab.sql, lab.context.store, [sent("unanswered")], () => {
      supply.fail();
      throw new Error("power fails");
    });
    await expect(failing).rejects.toThrow("power fails");
    expect(await messages()).toEqual([]);
    await commitLogs(lab.sql, lab.context.store, [sent("unanswered")]);
    expect(await messages()).toEqual(told("unanswered"));
    await expectWell();
  });
});

it("a large object that was answered for is there", async () => {
  const supply = await watch();
  async function* parts() {
    yield Buffer.from("one, ");
    yield Buffer.from("two");
  }
  await lab.context.store.putParts("maps/some.glb", parts());
  supply.fail();
  expect(await readFile(path.join(lab.lake.directory, "maps/some.glb"), "utf8")).toBe("one, two");
});

/** Enough rows for a roll-up. */
async function addRows(name: string): Promise<void> {
  const rowsSql = `SELECT make_timestamp_ns(i) AS time, '${name} ' || i AS msg, '${name}' AS service_name
    FROM range(9000) t(i)`;
  await addAged(lab, { table: "log_entries", audience: "a", rowsSql });
}

describe("a merge", () => {
  it("that is published has its objects and roll-ups", async () => {
    await addRows("shop");
    await addRows("bank");
    const before = await messages();
    const supply = await watch();
    await mergePartitions(lab.context, mergeAll);
    // Those that it replaced are no longer needed.
    await sweepRetired(lab.sql, lab.context.store, 0);
    supply.fail();
    expect(await messages()).toEqual(before);
    const rollups = await lab.sql`select from lakehouse_partitions where rollup_path is not null`;
    expect(rollups).toHaveLength(1);
    await expectWell();
  });

  it.each(["written", "replacing"] as const)("that is at %s has changed nothing", async (point) => {
    await addRows("shop");
    await addRows("bank");
    const before = await messages();
    const supply = await watch();
    const at = (reached: string): void => {
      if (reached === point) {
        supply.fail();
        throw new Error("power fails");
      }
    };
    await expect(mergePartitions({ ...lab.context, at }, mergeAll)).rejects.toBeInstanceOf(Error);
    expect(await messages()).toEqual(before);
    await mergePartitions(lab.context, mergeAll);
    expect(await messages()).toEqual(before);
    await expectWell();
  });
});

it("an erasure that is done stays done, and takes nothing else", async () => {
  const rowsSql = `SELECT make_timestamp_ns(i) AS time, s || i AS msg, s AS service_name
    FROM range(9000) t(i), (VALUES ('shop'), ('bank')) AS names (s)`;
  await addAged(lab, { table: "log_entries", audience: "a", rowsSql });
  const banks = (await messages()).filter((name) => name.startsWith("bank"));
  const supply = await watch();
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  await runTask(taskContext(lab), taskId);
  await sweepRetired(lab.sql, lab.context.store, 0);
  supply.fail();
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 9000 });
  expect(await messages()).toEqual(banks);
  await expectWell();
});

it("objects that were removed come back as files that nothing names, and go again", async () => {
  await addRows("past");
  await addRows("kept");
  const [past] = await lab.sql<{ path: string }[]>`select path from lakehouse_partitions limit 1`;
  const supply = await watch();
  await retirePartitions(lab.sql, { kind: "all" }, { kind: "path", path: past?.path ?? "" });
  await sweepRetired(lab.sql, lab.context.store, 0);
  const left = await messages();
  supply.fail();
  expect(await readFile(path.join(lab.lake.directory, past?.path ?? ""))).not.toHaveLength(0);
  expect(await messages()).toEqual(left);
  await expectWell();
  await expect(readFile(path.join(lab.lake.directory, past?.path ?? ""))).rejects.toThrow("ENOENT");
});
