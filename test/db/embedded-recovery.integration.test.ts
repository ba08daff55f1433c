import { spawn } from "node:child_process";
import { once } from "node:events";
import { chown, readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";

import { describe, expect, test } from "vitest";

import type { EmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { isConnectionError } from "../../src/db/sql.js";
import { killChild, type Owner, useEmbeddedFixture } from "../helpers/postgres/embedded.js";
import { until } from "../helpers/until.js";

const db = useEmbeddedFixture();
const isRoot = process.getuid?.() === 0;

describe("when its Postgres is killed, a running database", () => {
  test("comes back on the same address, with what was committed", async () => {
    await db().copyTemplate();
    const cluster = await db().start({ durable: true });
    const sql = db().open(cluster.connectionString);
    await sql`create table kept as select 42 as answer`;
    const pid = await db().postmasterPid();
    process.kill(pid, "SIGKILL");
    await until(async () => {
      try {
        await sql`select 1`;
        return (await db().postmasterPid()) !== pid;
      } catch (error) {
        // Until then callers see only errors that become 503.
        if (!isConnectionError(error)) {
          throw error;
        }
        return false;
      }
    });
    expect(await sql`select answer from kept`).toEqual([{ answer: 42 }]);
    await until(() => cluster.healthy);
  });

  test("stops all the same when the stop comes during the restart", async () => {
    await db().copyTemplate();
    const cluster = await db().start();
    process.kill(await db().postmasterPid(), "SIGKILL");
    await until(() => !cluster.healthy);
    await cluster.stop();
    // Those that the killed one left end when they notice.
    await until(async () => (await db().processes("postgres")).length === 0);
    expect(cluster.healthy).toBe(false);
  });
});

describe("after kill -9", () => {
  /** An owner in another process, with one committed row in its database. */
  async function ownerWithData(): Promise<Owner> {
    await db().copyTemplate();
    const owner = db().startOwner();
    const { connectionString } = await owner.answer;
    if (connectionString === undefined) {
      throw new Error("the owner did not start");
    }
    const sql = db().open(connectionString);
    await sql`create table kept as select 42 as answer`;
    await sql.end({ timeout: 5 });
    return owner;
  }

  const data = [{ answer: 42 }];

  function readData(cluster: EmbeddedPostgres): PromiseLike<unknown> {
    return db().open(cluster.connectionString)`select answer from kept`;
  }

  test("of the service, its database shuts down by itself", async () => {
    const owner = await ownerWithData();
    await killChild(owner.process);
    await until(async () => (await db().processes("postgres")).length === 0);
    expect(await readData(await db().start())).toEqual(data);
  });

  test("of the service and its watchdog, the orphaned database is stopped by the next start", async () => {
    const owner = await ownerWithData();
    const orphan = await db().postmasterPid();
    const watchdogs = await db().processes("sh");
    expect(watchdogs).toHaveLength(1);
    for (const pid of watchdogs) {
      process.kill(pid, "SIGKILL");
    }
    await until(async () => (await db().processes("sh")).length === 0);
    await killChild(owner.process);
    expect(await db().processes("postgres")).toContain(orphan);

    const cluster = await db().start();
    expect(await db().processes("postgres")).not.toContain(orphan);
    expect(await readData(cluster)).toEqual(data);
  });

  test("of the service and of Postgres together, the next start recovers", async () => {
    const owner = await ownerWithData();
    const pid = await db().postmasterPid();
    for (const watchdog of await db().processes("sh")) {
      process.kill(watchdog, "SIGKILL");
    }
    process.kill(pid, "SIGKILL");
    await killChild(owner.process);
    expect(await readData(await db().start())).toEqual(data);
  });

  test("a pid file whose number belongs to another process by now does not keep the database down", async () => {
    await db().copyTemplate();
    const first = await db().start();
    await db().open(first.connectionString)`create table kept as select 42 as answer`;
    const pidFile = path.join(db().pgdata, "postmaster.pid");
    const stale = await readFile(pidFile, "utf8");
    await first.stop();
    // A process of the very account that runs Postgres: the case that Postgres itself gets wrong.
    const { uid, gid } = await stat(db().pgdata);
    const stranger = spawn("sleep", ["60"], { stdio: "ignore", ...(isRoot ? { uid, gid } : {}) });
    db().after(() => stranger.kill("SIGKILL"));
    await once(stranger, "spawn");
    await writeFile(pidFile, stale.replace(/^\d+/u, String(stranger.pid)));
    if (isRoot) {
      await chown(pidFile, uid, gid);
    }
    expect(await readData(await db().start())).toEqual(data);
    expect(stranger.exitCode).toBeNull();
  });

  test("while creating the cluster, the next start creates it again", async () => {
    const owner = db().startOwner();
    const directory = path.join(db().dataDirectory, "postgres");
    await until(async () => {
      const entries = await readdir(directory).catch(() => []);
      const fresh = entries.find((entry) => entry.startsWith("pgdata.new."));
      if (fresh === undefined) {
        return false;
      }
      const files: string[] = await readdir(path.join(directory, fresh)).catch(() => []);
      return files.includes("PG_VERSION");
    });
    await killChild(owner.process);
    expect(await readdir(directory)).not.toContain("pgdata");

    const cluster = await db().start();
    expect(await db().open(cluster.connectionString)`select 1 as one`).toEqual([{ one: 1 }]);
    expect((await readdir(directory)).filter((e) => e.startsWith("pgdata"))).toEqual(["pgdata"]);
  });
});
