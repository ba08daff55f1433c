/** Erasures over a lake of objects of our choosing. */
import { randomUUID } from "node:crypto";
import { rm, truncate } from "node:fs/promises";
import path from "node:path";

import { afterEach, beforeEach, describe, expect, it, test } from "vitest";

import { childrenOf } from "../helpers/processes.js";
import { BadObjects } from "../../src/lake/bad-objects.js";
import { nextTask, runTask, type TaskPoint } from "../../src/lake/check/lake-tasks.js";
import { databaseJson } from "../../src/lake/database-text.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { tryLockMerge } from "../../src/lake/merge/merge-lock.js";
import { sweepRetired } from "../../src/lake/retire.js";
import { createRoleLogin } from "../helpers/auth/auth-roles.js";
import { connect } from "../../src/db/sql.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createManualClock } from "../helpers/manual-clock.js";
import { sampled } from "../helpers/effort.js";
import { changeBytes } from "../helpers/lake/change-bytes.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { storeWith } from "../helpers/lake/store-with.js";
import { addAged, askErasure, dieAt, publishedValues, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(() => lab.stop());

const logs = (rows: string): string => `SELECT * FROM (VALUES ${rows}) AS t (time, msg, service_name, properties)`;
const log = (name: string, service = "shop", properties = "{}", ns: number | string = 0): string =>
  `(make_timestamp_ns(${ns}), '${name}', '${service}', '${properties}')`;

async function addLogs(rows: readonly string[], audience: string | null = "a", level: 0 | 3 = 0): Promise<string> {
  const added = await addAged(lab, { table: "log_entries", audience, level, rowsSql: logs(rows.join(", ")) });
  return added.path;
}

const messages = (): Promise<string[]> => publishedValues(lab, "log_entries", "msg");

async function eraseService(name: string, audience = "a"): Promise<string> {
  const taskId = await askErasure(lab, { audience, where: { service: name } });
  await runTask(taskContext(lab), taskId);
  return taskId;
}

it("takes rows out of objects of every level, removes those that become empty, and says how many", async () => {
  await addLogs([log("1"), log("2", "other")]);
  await addLogs([log("3"), log("4"), log("5", "other")], "a", 3);
  await addLogs([log("6"), log("7")]);
  const untouched = await addLogs([log("8", "other")]);
  await addLogs([log("9")], "b");
  const taskId = await eraseService("shop");
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 5, rewritten: 2, removed: 1, error: null });
  expect(await messages()).toEqual(["2", "5", "8", "9"]);
  const partitions = await lab.sql<{ level: number; rows: number; path: string }[]>`
    select level::int as level, row_count::int as rows, path from lakehouse_partitions where audience = 'a' order by level, rows`;
  expect(partitions).toEqual([
    { level: 0, rows: 1, path: untouched },
    { level: 1, rows: 1, path: expect.stringMatching(/\.l1\.parquet$/) as unknown },
    { level: 3, rows: 1, path: expect.stringMatching(/\.l3\.parquet$/) as unknown },
  ]);
  const [audit] = await lab.sql`select actor, action, target, details from audit_log`;
  expect(audit).toEqual({
    actor: "maintenance",
    action: "erasure.done",
    target: taskId,
    details: { rows_removed: "5", objects_rewritten: "2", objects_removed: "1" },
  });
});

it("leaves what is ingested while it waits", async () => {
  await addLogs([log("1")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  await addLogs([log("2")]);
  await runTask(taskContext(lab), taskId);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 1, error: null });
  expect(await messages()).toEqual(["2"]);
});

function killEngine(): void {
  const engines = childrenOf(process.pid, "engine-process");
  expect(engines).toHaveLength(1);
  for (const pid of engines) {
    process.kill(pid, "SIGKILL");
  }
}

it.each([
  [1, { state: "done", rows: 2, rewritten: 0, removed: 1, error: null }],
  [4, { state: "done", rows: 2, rewritten: 0, removed: 1, error: null }],
  [5, { state: "failed", error: "Rewriting an object needs more memory or disk than it may have." }],
])("is tried five times when its engine is killed: %i times", async (kills, end) => {
  await addLogs([log("1"), log("2")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  let left = kills;
  const at = (point: TaskPoint): void => {
    if (point === "counted" && left > 0) {
      left--;
      killEngine();
    }
  };
  const failure = await runTask(taskContext(lab, { at }), taskId).catch(
    (error: unknown) => (error as ServiceError).code,
  );
  expect(failure).toBe(kills === 5 ? "PAYLOAD_TOO_LARGE" : undefined);
  expect(left).toBe(0);
  expect(await taskRow(lab, taskId)).toMatchObject(end);
  expect(await messages()).toEqual(kills === 5 ? ["1", "2"] : []);
});

it("is tried five times more once an object is replaced", async () => {
  await addLogs([log("1"), log("2")]);
  await addLogs([log("3"), log("4", "other")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  const passed: TaskPoint[] = [];
  const times = (point: TaskPoint): number => passed.filter((one) => one === point).length;
  const at = (point: TaskPoint): void => {
    passed.push(point);
    // Four times before the first object, once right after it, three times before the second one.
    if (
      (point === "counted" && [1, 2, 3, 4, 6, 7, 8].includes(times(point))) ||
      (point === "replaced" && times(point) === 1)
    ) {
      killEngine();
    }
  };
  await runTask(taskContext(lab, { at }), taskId);
  expect(times("counted")).toBeGreaterThanOrEqual(9);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 3, rewritten: 1, removed: 1, error: null });
  expect(await messages()).toEqual(["4"]);
});

it("finds nothing when it is asked for again", async () => {
  await addLogs([log("1"), log("2", "other")]);
  await eraseService("shop");
  const again = await eraseService("shop");
  expect(await taskRow(lab, again)).toMatchObject({ state: "done", rows: 0, rewritten: 0, removed: 0 });
});

it("leaves replaced objects to queries under way until the grace period is over", async () => {
  const path = await addLogs([log("1"), log("2", "other")]);
  await eraseService("shop");
  const old = `SELECT msg FROM '${lab.lake.directory}/${path}' ORDER BY msg`;
  await sweepRetired(lab.sql, lab.context.store, 3_600_000);
  expect(await lab.duck(old)).toEqual([{ msg: "1" }, { msg: "2" }]);
  await lab.sql`update retired_objects set retired_at = now() - interval '61 minutes'`;
  await sweepRetired(lab.sql, lab.context.store, 3_600_000);
  await expect(lab.duck(old)).rejects.toThrow(/No files found/);
});

describe("erases by", () => {
  const erase = async (where: Parameters<typeof askErasure>[1]["where"], range = {}): Promise<number | undefined> => {
    const taskId = await askErasure(lab, { audience: "a", where, ...range });
    await runTask(taskContext(lab), taskId);
    return (await taskRow(lab, taskId))?.rows;
  };

  test("process, in every table", async () => {
    const [one, two] = [randomUUID(), randomUUID()];
    for (const table of ["log_entries", "measures", "histograms", "spans"] as const) {
      const rowsSql = `SELECT make_timestamp_ns(1) AS time, unnest(['${one}', '${two}']) AS process_id`;
      await addAged(lab, { table, audience: "a", rowsSql });
    }
    await addAged(lab, {
      table: "spans",
      audience: "a",
      rowsSql: `SELECT make_timestamp_ns(1) AS time, '${one}' AS process_id`,
      // The catalogue says that it is not in there, so nobody looks.
      processIds: [two],
    });
    expect(await erase({ process: one })).toBe(4);
    expect(await publishedValues(lab, "histograms", "process_id")).toEqual([two]);
    expect(await publishedValues(lab, "spans", "process_id")).toEqual([one, two].toSorted());
  });

  test("trace, in log records and spans", async () => {
    for (const table of ["log_entries", "spans"] as const) {
      await addAged(lab, {
        table,
        audience: "a",
        rowsSql: "SELECT make_timestamp_ns(1) AS time, unnest(['aa', 'bb', NULL]) AS trace_id",
      });
    }
    expect(await erase({ trace: "aa" })).toBe(2);
    expect(await publishedValues(lab, "spans", "coalesce(trace_id, 'none')")).toEqual(["bb", "none"]);
  });

  test("attribute: its text, wherever a row has it, and every time that it was sent", async () => {
    await addLogs([
      log("text", "s", '{"user.id":"7"}'),
      log("number", "s", '{"user.id":7}'),
      log("second", "s", '{"user.id":"8","user.id":"7"}'),
      log("other value", "s", '{"user.id":"77"}'),
      log("other key", "s", '{"x":"7","user":{"id":"7"}}'),
      log("null", "s", '{"user.id":null}'),
      log("nothing", "s", "{}"),
    ]);
    for (const [column, name] of [
      ["process_properties", "process"],
      ["scope_properties", "scope"],
    ] as const) {
      const rowsSql = `SELECT make_timestamp_ns(1) AS time, '${name}' AS msg, '{"a":1,"user.id":"7"}' AS ${column}`;
      await addAged(lab, { table: "log_entries", audience: "a", rowsSql });
    }
    expect(await erase({ attribute: { key: "user.id", value: "7" } })).toBe(5);
    expect(await messages()).toEqual(["nothing", "null", "other key", "other value"]);
  });

  test("attribute: an empty text", async () => {
    await addLogs([
      log("empty", "s", '{"user.id":""}'),
      log("null", "s", '{"user.id":null}'),
      log("nothing", "s", "{}"),
    ]);
    expect(await erase({ attribute: { key: "user.id", value: "" } })).toBe(1);
    expect(await messages()).toEqual(["nothing", "null"]);
  });

  test("attribute: in events, links and exemplars, with the row that holds them", async () => {
    const struct = (properties: string): string => `[{'properties': '{"k''s":"v"}'}, {'properties': '${properties}'}]`;
    const events = (value: string): string =>
      `list_transform(${value}, lambda e: {'time': NULL::TIMESTAMP_NS, 'name': '', 'properties': e.properties, 'dropped_attributes_count': 0})`;
    const rowsSql = `SELECT make_timestamp_ns(1) AS time, 'event' AS name, ${events(struct('{"~/a":true}'))} AS events
      UNION ALL SELECT make_timestamp_ns(1), 'none', ${events(struct("{}"))}`;
    await addAged(lab, { table: "spans", audience: "a", rowsSql });
    const exemplars = `[{'time': NULL::TIMESTAMP_NS, 'value': 1.0, 'value_int': NULL, 'trace_id': 'aa', 'span_id': 'bb', 'properties': '{"~/a":true}'}]`;
    const measures = `SELECT make_timestamp_ns(1) AS time, 'm' AS name, ${exemplars} AS exemplars`;
    await addAged(lab, { table: "measures", audience: "a", rowsSql: measures });
    expect(await erase({ attribute: { key: "~/a", value: "true" } })).toBe(2);
    expect(await publishedValues(lab, "spans", "name")).toEqual(["none"]);
    expect(await erase({ attribute: { key: "k's", value: "v" } })).toBe(1);
  });

  test("time: from the begin on, before the end", async () => {
    await addLogs(["1", "2", "3", "4"].map((name) => log(name, "shop", "{}", Number(name))));
    expect(await erase({ service: "shop" }, { begin_ns: "2", end_ns: "4" })).toBe(2);
    expect(await messages()).toEqual(["1", "4"]);
  });

  test("time: beyond what times of rows reach", async () => {
    await addLogs([log("first", "s", "{}", "-9223372036854775806"), log("last", "s", "{}", "9223372036854775806")]);
    const [least, most] = ["-9223372036854775807", "9223372036854775807"];
    expect(await erase({ service: "s" }, { begin_ns: most })).toBe(0);
    expect(await erase({ service: "s" }, { end_ns: least })).toBe(0);
    expect(await erase({ service: "s" }, { begin_ns: "0", end_ns: most })).toBe(1);
    expect(await messages()).toEqual(["first"]);
    expect(await erase({ service: "s" }, { begin_ns: least, end_ns: most })).toBe(1);
  });
  test("text that looks like SQL", async () => {
    const hostile = "x' OR true; DROP TABLE t; -- $1";
    await addLogs([log("1"), log("2", hostile.replaceAll("'", "''"))]);
    expect(await erase({ service: "' OR true OR service_name = '" })).toBe(0);
    expect(await erase({ attribute: { key: "') OR true OR ('", value: hostile } })).toBe(0);
    expect(await erase({ service: hostile })).toBe(1);
    expect(await messages()).toEqual(["1"]);
  });
});

it("takes rows without an audience with the audience that they are read as", async () => {
  await addLogs([log("1")], null);
  await addLogs([log("2")], "public");
  await eraseService("shop", "a");
  expect(await messages()).toEqual(["1", "2"]);
  await eraseService("shop", "public");
  expect(await messages()).toEqual([]);
});

it.each([
  ["missing", (file: string) => rm(file)],
  ["truncated", (file: string) => truncate(file, 50)],
  ["changed, and can be read", changeBytes],
])("erases everything but an object that is %s, then fails, and says which and what to do", async (_what, spoil) => {
  await addLogs([log("1")]);
  const spoilt = await addLogs([log("2")]);
  await addLogs([log("3")]);
  await spoil(path.join(lab.lake.directory, spoilt));
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  await expect(runTask(taskContext(lab), taskId)).rejects.toBeInstanceOf(BadObjects);
  expect(await taskRow(lab, taskId)).toMatchObject({
    state: "failed",
    error: `An object is missing or damaged: ${spoilt}. Restore it from a backup, or run telemetry lake check --deep --repair to go on without it. It leaves one whose bytes have changed: copy its file, then run SELECT * FROM retire_partition_by_file('${spoilt}') as an administrator who may read its audience; all its rows go, and its file an hour later. Everything else is erased; ask for the erasure once more then.`,
    rows: 2,
  });
  await lab.sql`delete from lakehouse_partitions where path = ${spoilt}`;
  expect(await messages()).toEqual([]);
});

it("says what it waits for, until it goes on", async () => {
  await addLogs([log("1")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  const outage = new ServiceError("UNAVAILABLE", "the object store cannot be read");
  await expect(
    runTask(taskContext(lab, { at: (point) => (point === "counted" ? Promise.reject(outage) : undefined) }), taskId),
  ).rejects.toBe(outage);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "running", error: outage.message });
  const said: unknown[] = [];
  const at = async (): Promise<void> => void said.push((await taskRow(lab, taskId))?.error);
  await runTask(taskContext(lab, { at }), taskId);
  expect(new Set(said)).toEqual(new Set([null]));
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 1, error: null });
});

it("leaves nothing of what it could not publish because others keep rows locked, and says so", async () => {
  await addLogs([log("shop"), log("other", "other")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  const stored = async (): Promise<readonly string[]> => {
    const paths: string[] = [];
    for await (const object of lab.context.store.list("log_entries")) {
      paths.push(object.path);
    }
    return paths.toSorted();
  };
  const before = await stored();
  // As Postgres does when it has been waited for long enough.
  await lab.sql`
    create function keep() returns trigger language plpgsql as $$ begin
      raise exception 'locked' using errcode = '55P03'; end $$`.simple();
  await lab.sql`create trigger keep before delete on lakehouse_partitions for each row execute function keep()`;
  await expect(runTask(taskContext(lab), taskId)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(await taskRow(lab, taskId)).toMatchObject({
    state: "running",
    error: "Others keep partitions locked in the database; trying again later.",
  });
  expect(await stored()).toEqual(before);
  await lab.sql`drop trigger keep on lakehouse_partitions`;
  await runTask(taskContext(lab), taskId);
  expect(await messages()).toEqual(["other"]);
});

it("does not bring rows back by merging, before or after it", async () => {
  for (let i = 0; i < 4; i++) {
    await addLogs([log(`shop ${i}`), log(`other ${i}`, "other")]);
  }
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  let merging: Promise<unknown> = Promise.resolve();
  let merged: unknown = null;
  await runTask(
    taskContext(lab, {
      at: (point) => {
        if (point === "counted") {
          // The lock keeps it out.
          merging = mergePartitions(lab.context, mergeAll).catch((error: unknown) => {
            merged = error;
          });
        }
        return point === "counted" ? merging.then(() => undefined) : undefined;
      },
    }),
    taskId,
  );
  expect(merged).toMatchObject({ code: "UNAVAILABLE" });
  await mergePartitions(lab.context, mergeAll);
  expect(await messages()).toEqual(["other 0", "other 1", "other 2", "other 3"]);
});

it("looks through objects that a merge without its lock has made meanwhile", async () => {
  for (let i = 0; i < 2; i++) {
    await addLogs([log(`shop ${i}`), log(`other ${i}`, "other")]);
  }
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  let done = false;
  await runTask(
    taskContext(lab, {
      at: async (point) => {
        if (point === "counted" && !done) {
          done = true;
          // As a merge would that has lost its session after it began: the catalogue decides.
          await addLogs([log("shop merged"), log("other merged", "other")], "a", 3);
        }
      },
    }),
    taskId,
  );
  expect(await messages()).toEqual(["other 0", "other 1", "other merged"]);
  expect(await taskRow(lab, taskId)).toMatchObject({ rows: 3, rewritten: 3 });
});

it.each(["storing", "written", "replacing"])(
  "replaces nothing after it waited for so long that what it wrote may be gone (%s)",
  async (where) => {
    await addLogs([log("shop"), log("other", "other")]);
    const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
    const clock = createManualClock(Date.now());
    const at = (point: TaskPoint | "storing"): void => {
      if (point === where) {
        clock.advance(2 * 3_600_000);
      }
    };
    const store = storeWith(lab.context.store, {
      localPath: (object) => {
        if (object.endsWith(".l1.parquet")) {
          at("storing");
        }
        return lab.context.store.localPath(object);
      },
    });
    await expect(runTask(taskContext(lab, { store, clock, at }), taskId)).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    expect(await messages()).toEqual(["other", "shop"]);
    await runTask(taskContext(lab), taskId);
    expect(await messages()).toEqual(["other"]);
    expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 1, rewritten: 1 });
  },
);

it("tries an object again whose replacement lost against another transaction", async () => {
  await addLogs([log("shop 1"), log("other", "other")]);
  await addLogs([log("shop 2")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  let deadlocks = 2;
  await runTask(
    taskContext(lab, {
      at: async (point) => {
        if (point === "replacing" && deadlocks-- > 0) {
          // As of one of two transactions that wait for each other.
          await lab.sql.unsafe("do $$ begin raise exception 'deadlock detected' using errcode = '40P01'; end $$");
        }
      },
    }),
    taskId,
  );
  expect(await messages()).toEqual(["other"]);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 2, rewritten: 1, removed: 1 });
});

it("is continued later when somebody else merges the table for long", async () => {
  await addLogs([log("1")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  const other = await lab.sql.reserve();
  expect(await tryLockMerge(other, { viewSet: "log_entries" })).toBe(true);
  let cancelled = false;
  const running = runTask(taskContext(lab, { cancelled: () => cancelled }), taskId);
  cancelled = true;
  await expect(running).rejects.toMatchObject({ code: "CANCELLED" });
  await other`select pg_advisory_unlock_all()`;
  other.release();
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "running", rows: 0 });
  expect(await nextTask(lab.sql, [])).toBe(taskId);
  await runTask(taskContext(lab), taskId);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 1 });
});

it("is done once when two processes are at it", async () => {
  for (let i = 0; i < 6; i++) {
    await addLogs([log(`shop ${i}`), log(`other ${i}`, "other")]);
  }
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  await Promise.all([runTask(taskContext(lab), taskId), runTask(taskContext(lab), taskId)]);
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 6, rewritten: 6 });
  expect(await lab.sql`select from audit_log`).toHaveLength(1);
});

describe("a process killed", () => {
  const points: readonly (readonly [TaskPoint, number])[] = [
    ["taken", 1],
    ["counted", 1],
    ["written", 1],
    ["replacing", 2],
    ["replaced", 2],
    ["finishing", 1],
    ["finished", 1],
  ];
  test.each(sampled(points, 4))("at %s (%i.) leaves an erasure that another one ends", async (point, nth) => {
    for (let i = 0; i < 3; i++) {
      await addLogs([log(`shop ${i}`), log(`other ${i}`, "other")]);
    }
    await addLogs([log("shop alone")]);
    const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
    await dieAt(lab, { task: taskId }, point, nth);
    // Nothing of what the death left is half-done: every row of others is there once.
    expect((await messages()).filter((name) => name.startsWith("other"))).toEqual(["other 0", "other 1", "other 2"]);
    await runTask(taskContext(lab), taskId);
    expect(await messages()).toEqual(["other 0", "other 1", "other 2"]);
    expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 4, rewritten: 3, removed: 1 });
  });
});

it("takes processes and streams along, unless they have sent something since or a time is given", async () => {
  const [gone, active, other] = [randomUUID(), randomUUID(), randomUUID()];
  for (const [processId, service] of [
    [gone, "shop"],
    [active, "shop"],
    [other, "other"],
  ] as const) {
    await lab.sql`insert into processes (process_id, audience, service_name, properties)
      values (${processId}, 'a', ${service}, '{"k": "v"}')`;
    await lab.sql`insert into streams (stream_id, process_id, audience, signal) values (${processId}, ${processId}, 'a', 1)`;
    await lab.sql`insert into blocks (block_id, stream_id, process_id, audience, signal, row_count, payload_bytes, insert_time)
      values (${randomUUID()}, ${processId}, ${processId}, 'a', 1, 1, 1, now() - interval '1 minute')`;
  }
  const ranged = await askErasure(lab, { audience: "a", where: { service: "shop" }, begin_ns: "0" });
  await runTask(taskContext(lab), ranged);
  expect(await lab.sql`select from processes`).toHaveLength(3);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  await lab.sql`insert into blocks (block_id, stream_id, process_id, audience, signal, row_count, payload_bytes, insert_time)
    values (${randomUUID()}, ${active}, ${active}, 'a', 1, 1, 1, now() + interval '1 second')`;
  await runTask(taskContext(lab), taskId);
  const left = await lab.sql<{ id: string }[]>`select process_id as id from processes order by 1`;
  expect(left.map(({ id }) => id)).toEqual([active, other].toSorted());
  expect(await lab.sql`select from blocks`).toHaveLength(4);
});

it.each([
  ["a list", '{"k":[1,"two",[3.5,true]]}'],
  ["a small number", '{"k":1e-7}'],
  ["a large number", '{"k":1.5e+300}'],
  ["a map", '{"k":{"b":1,"aa":{"z":[],"y":{}}}}'],
  ["a map with a key twice", '{"k":{"b":1,"b":2}}'],
  ["a whole number", '{"k":9007199254740993}'],
  ["a boolean", '{"k":true}'],
  ["a text", '{"k":"[1,"}'],
  ["a text like a number", '{"k":"1e999999"}'],
  ["what Postgres cannot hold", '{"k":["x\\u0000"]}'],
])("takes the process along by the text that its rows have: %s", async (_, properties) => {
  const processId = randomUUID();
  await addAged(lab, {
    table: "log_entries",
    audience: "a",
    rowsSql: `SELECT make_timestamp_ns(1) AS time, '${properties}' AS process_properties`,
  });
  const add = async (id: string, json: string): Promise<void> => {
    await lab.sql`insert into processes (process_id, audience, properties)
      values (${id}, 'a', ${databaseJson(json)}::text::jsonb)`;
    await lab.sql`insert into streams (stream_id, process_id, audience, signal) values (${id}, ${id}, 'a', 1)`;
  };
  await add(processId, properties);
  const [row] = await lab.duck(`SELECT json_extract_string('${properties}', '$.k') AS value`);
  const value = String(row?.["value"]);
  const others = [null, `${value} `, { k: value }].map((k) => [randomUUID(), JSON.stringify({ k })] as const);
  for (const [id, json] of others) {
    await add(id, json);
  }
  const erase = async (wanted: string): Promise<void> => {
    const where = { attribute: { key: "k", value: wanted } };
    await runTask(taskContext(lab), await askErasure(lab, { audience: "a", where }));
  };
  await erase("null");
  await erase(JSON.stringify(value));
  expect(await lab.sql`select from processes`).toHaveLength(4);
  await erase(value);
  expect(await publishedValues(lab, "log_entries", "process_properties")).toEqual([]);
  const left = await lab.sql<{ id: string }[]>`select process_id as id from processes order by 1`;
  expect(left.map(({ id }) => id)).toEqual(others.map(([id]) => id).toSorted());
});

it("fails, and says so, when an object cannot be read; what was erased before stays erased", async () => {
  await addLogs([log("1")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  await lab.sql`update lakehouse_partitions set path = replace(path, '.l0', '.gone')`;
  await expect(runTask(taskContext(lab), taskId)).rejects.toMatchObject({ code: "INTERNAL" });
  expect(await taskRow(lab, taskId)).toMatchObject({
    state: "failed",
    error: expect.stringContaining("telemetry lake check") as unknown,
  });
  expect(await nextTask(lab.sql, [])).toBeNull();
});

it("fails without blaming objects when the database refuses", async () => {
  await addLogs([log("1")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  const at = async (): Promise<void> => {
    await lab.sql.unsafe("do $$ begin raise exception 'refused'; end $$");
  };
  await expect(
    runTask(taskContext(lab, { at: (point) => (point === "replacing" ? at() : undefined) }), taskId),
  ).rejects.toThrow("refused");
  expect(await taskRow(lab, taskId)).toMatchObject({
    state: "failed",
    rows: 0,
    error: expect.stringMatching(/the log/u),
  });
  expect(await messages()).toEqual(["1"]);
});

it("needs no more than the database role of maintenance", async () => {
  await addLogs([log("1"), log("2", "other")]);
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  const login = await createRoleLogin(lab.sql, lab.connectionString, "ingestion");
  const { connectionString } = login;
  const sql = connect({ connectionString, maxConnections: 2, applicationName: "test", logger: createSilentLogger() });
  try {
    await runTask(taskContext(lab, { sql }), taskId);
  } finally {
    await sql.end({ timeout: 5 });
    await login.drop();
  }
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: 1 });
  expect(await lab.sql`select from audit_log`).toHaveLength(1);
});
