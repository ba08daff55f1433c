/**
 * What the tests of the embedded Postgres share: a data directory of their own, clusters in this process and
 * in others, and a look at the processes that work there. Linux only, through /proc.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";

import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../../src/db/embedded/embedded.js";
import { connect, type Sql } from "../../../src/db/sql.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { until } from "../until.js";

/** The program of a process that owns a database (db-child.ts). */
export const ownerFile = fileURLToPath(new URL("./db-child.js", import.meta.url));

/** A process that owns the embedded database of a directory. */
export interface Owner {
  readonly process: ChildProcessByStdio<Writable, Readable, null>;
  readonly answer: Promise<{ connectionString?: string; error?: string }>;
}

/** One test's data directory and what it may do there; everything is undone after the test. */
interface EmbeddedFixture {
  readonly dataDirectory: string;
  readonly pgdata: string;
  /** Puts a made cluster into the directory, because making one takes most of a second. */
  copyTemplate(): Promise<void>;
  start(o?: { durable?: boolean; directory?: string }): Promise<EmbeddedPostgres>;
  open(connectionString: string): Sql;
  /** Starts the directory's database in another process, as another user where one is given. */
  startOwner(account?: { uid: number; gid: number }): Owner;
  postmasterPid(): Promise<number>;
  /** Processes with this name that work anywhere in the directory. */
  processes(name: string): Promise<number[]>;
  /** Has its step run after the test, before the steps that were given earlier. */
  after(step: () => unknown): void;
}

const logger = createSilentLogger();

/** Registers the hooks of the calling test file; the function it returns gives the running test's fixture. */
export function useEmbeddedFixture(): () => EmbeddedFixture {
  let template = "";
  beforeAll(async () => {
    template = await mkdtemp(path.join(tmpdir(), "tsvc-embedded-template-"));
    const options = { dataDirectory: template, logger, durable: false };
    await (await startEmbeddedPostgres(options)).stop();
  });
  afterAll(() => rm(template, { recursive: true, force: true }));

  let current: Awaited<ReturnType<typeof createFixture>> | null = null;
  beforeEach(async () => {
    current = await createFixture(template);
  });
  afterEach(async () => {
    await current?.tearDown();
    current = null;
  });
  return () => {
    if (current === null) {
      throw new Error("there is a fixture only while a test runs");
    }
    return current.fixture;
  };
}

/** One cluster that all tests of the calling suite look at, and none changes. */
export function useEmbeddedCluster(): () => {
  readonly db: EmbeddedFixture;
  readonly cluster: EmbeddedPostgres;
} {
  let made: Awaited<ReturnType<typeof createFixture>> | null = null;
  let cluster: EmbeddedPostgres | null = null;
  beforeAll(async () => {
    made = await createFixture("");
    cluster = await made.fixture.start();
  });
  afterAll(() => made?.tearDown());
  return () => {
    if (made === null || cluster === null) {
      throw new Error("the cluster has not started");
    }
    return { db: made.fixture, cluster };
  };
}

async function createFixture(template: string): Promise<{ fixture: EmbeddedFixture; tearDown: () => Promise<void> }> {
  const dataDirectory = await mkdtemp(path.join(tmpdir(), "tsvc-embedded-"));
  const steps: (() => unknown)[] = [];
  const pgdata = path.join(dataDirectory, "postgres", "pgdata");
  const fixture: EmbeddedFixture = {
    dataDirectory,
    pgdata,
    copyTemplate: async () => {
      const copying = spawn("cp", ["-a", path.join(template, "postgres"), dataDirectory]);
      expect(await once(copying, "close")).toEqual([0, null]);
    },
    start: async (o) => {
      const cluster = await startEmbeddedPostgres({
        dataDirectory: o?.directory ?? dataDirectory,
        logger,
        durable: o?.durable ?? false,
      });
      steps.push(() => cluster.stop());
      return cluster;
    },
    open: (connectionString) => {
      const sql = connect({
        connectionString,
        maxConnections: 1,
        applicationName: "test",
        logger,
        connectTimeoutSeconds: 5,
      });
      steps.push(() => sql.end({ timeout: 1 }));
      return sql;
    },
    startOwner: (account) => {
      const child = spawn(process.execPath, [ownerFile, "embedded", dataDirectory], {
        stdio: ["pipe", "pipe", "inherit"],
        ...(account === undefined ? {} : { uid: account.uid, gid: account.gid }),
      });
      steps.push(() => killChild(child));
      const lines = createInterface({ input: child.stdout });
      const answer = once(lines, "line").then(
        ([line]) => JSON.parse(String(line)) as { connectionString?: string; error?: string },
      );
      // A test that kills the owner before it answers waits for no answer.
      answer.catch(() => undefined);
      return { process: child, answer };
    },
    postmasterPid: async () => Number.parseInt(await readFile(path.join(pgdata, "postmaster.pid"), "utf8"), 10),
    processes: (name) => processesBelow(dataDirectory, name),
    after: (step) => steps.push(step),
  };
  const tearDown = async (): Promise<void> => {
    for (const step of steps.toReversed()) {
      await step();
    }
    await killAll(fixture, "postgres");
    await rm(dataDirectory, { recursive: true, force: true, maxRetries: 5 });
  };
  return { fixture, tearDown };
}

/** Kills a child with SIGKILL and waits until it is gone. */
export async function killChild(child: Owner["process"]): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) {
    return;
  }
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** Kills the fixture's processes of a name with SIGKILL and waits until they are gone. */
async function killAll(fixture: EmbeddedFixture, name: string): Promise<void> {
  for (const pid of await fixture.processes(name)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") {
        throw error;
      }
    }
  }
  await until(async () => (await fixture.processes(name)).length === 0);
}

async function processesBelow(directory: string, name: string): Promise<number[]> {
  const found: number[] = [];
  for (const entry of await readdir("/proc")) {
    if (!/^\d+$/u.test(entry)) {
      continue;
    }
    const cwd = await readlink(`/proc/${entry}/cwd`).catch(() => "");
    const comm = await readFile(`/proc/${entry}/comm`, "utf8").catch(() => "");
    if (cwd.startsWith(`${directory}/`) && comm.trim() === name) {
      found.push(Number(entry));
    }
  }
  return found;
}
