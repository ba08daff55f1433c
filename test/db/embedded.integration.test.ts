import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  access,
  chmod,
  chown,
  cp,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import net from "node:net";
import path from "node:path";

import { describe, expect, test } from "vitest";

import { canReach, copyPrograms, nativeDirectory } from "../../src/db/embedded/embedded-binaries.js";
import { directoryFailure, prepareDirectory } from "../../src/db/embedded/embedded-cluster.js";
import { startFailure } from "../../src/db/embedded/embedded-process.js";
import { sqlState } from "../../src/db/sql.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { failure } from "../helpers/failure.js";
import { ownerFile, useEmbeddedCluster, useEmbeddedFixture } from "../helpers/postgres/embedded.js";

const db = useEmbeddedFixture();
const isRoot = process.getuid?.() === 0;
const nobody = { name: "nobody", uid: 65_534, gid: 65_534 };
/** A test can run a process as another user only as root, and only where that user can read the code. */
const canBeNobody = isRoot && (await canReach(path.dirname(ownerFile), nobody));

describe("an embedded database", () => {
  test("keeps its data, its password and nothing running over a stop and a start", async () => {
    const first = await db().start({ durable: true });
    const sql = db().open(first.connectionString);
    await sql`create table kept as select 42 as answer`;
    const [settings] = await sql`
      select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
        current_setting('full_page_writes') as pages, current_database() as database`;
    expect(settings).toEqual({ fsync: "on", commit: "on", pages: "on", database: "telemetry" });
    await sql.end();
    await first.stop();
    expect(await db().processes("postgres")).toEqual([]);
    expect(await db().processes("sh")).toEqual([]);

    const second = await db().start({ durable: true });
    expect(new URL(second.connectionString).password).toBe(new URL(first.connectionString).password);
    expect(await db().open(second.connectionString)`select answer from kept`).toEqual([{ answer: 42 }]);
  });
});

describe("a running embedded database", () => {
  const running = useEmbeddedCluster();

  test("has a password that only its owner can read, and lets nobody in without it", async () => {
    const { db, cluster } = running();
    const directory = path.join(db.dataDirectory, "postgres");
    expect((await stat(path.join(directory, "password"))).mode & 0o777).toBe(0o600);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    const url = new URL(cluster.connectionString);
    expect(url.password).toMatch(/^[0-9a-f]{64}$/u);
    for (const password of ["", "wrong", "telemetry"]) {
      url.password = password;
      expect(sqlState(await failure(db.open(url.href)`select 1`))).toMatch(/^28/u);
    }
    const [row] = await db.open(cluster.connectionString)<{ kind: string }[]>`
      select left(rolpassword, 13) as kind from pg_authid where rolname = 'telemetry'`;
    expect(row?.kind).toBe("SCRAM-SHA-256");
  });

  test("listens on 127.0.0.1 alone, and on no Unix socket", async () => {
    const { cluster } = running();
    const port = Number(new URL(cluster.connectionString).port);
    const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
    const listeners = async (file: string): Promise<string[]> =>
      (await readFile(file, "utf8").catch(() => ""))
        .split("\n")
        .map((line) => line.trim().split(/\s+/u))
        .filter((column) => column[1]?.endsWith(suffix) === true && column[3] === "0A")
        .map((column) => String(column[1]));
    expect(await listeners("/proc/net/tcp")).toEqual([`0100007F${suffix}`]);
    expect(await listeners("/proc/net/tcp6")).toEqual([]);
    expect(await readFile("/proc/net/unix", "utf8")).not.toContain(`.s.PGSQL.${String(port)}`);
    await expect(access(`/tmp/.s.PGSQL.${String(port)}`)).rejects.toThrow("ENOENT");
  });

  test("runs as an account that is never root, and owns the cluster", async () => {
    const { db, cluster } = running();
    const pid = await db.postmasterPid();
    const uid = (await stat(`/proc/${String(pid)}`)).uid;
    expect(uid).not.toBe(0);
    expect((await stat(db.pgdata)).uid).toBe(uid);
    expect(cluster.healthy).toBe(true);
  });

  test("refuses a second instance with one sentence that names the directory, from this process and from another", async () => {
    const { db, cluster } = running();
    const error = await failure(db.start());
    expect(error).toBeInstanceOf(ServiceError);
    const sentence = `The database directory ${path.join(db.dataDirectory, "postgres")} is in use by another instance (process ${String(process.pid)}): stop it, or give this one a data directory of its own.`;
    expect(error.message).toBe(sentence);
    expect(await db.startOwner().answer).toEqual({ error: sentence });
    // The refused ones have not harmed the first.
    expect(await db.open(cluster.connectionString)`select 1 as one`).toEqual([{ one: 1 }]);
  });

  test("has a port that was free", async () => {
    const { cluster } = running();
    const port = Number(new URL(cluster.connectionString).port);
    const rival = net.createServer();
    rival.listen(port, "127.0.0.1");
    const [error] = (await once(rival, "error")) as [NodeJS.ErrnoException];
    expect(error.code).toBe("EADDRINUSE");
  });
});

describe("a second instance on one directory", () => {
  test("gets in as soon as the first has stopped", async () => {
    await db().copyTemplate();
    await (await db().start()).stop();
    await expect(db().start()).resolves.toMatchObject({ healthy: true });
  });

  test("is refused too when both start at the same moment on an empty directory", async () => {
    const owners = [db().startOwner(), db().startOwner()];
    const answers = await Promise.all(owners.map((owner) => owner.answer));
    expect(answers.filter((answer) => answer.connectionString !== undefined)).toHaveLength(1);
    expect(answers.filter((answer) => answer.error?.includes("in use") === true)).toHaveLength(1);
  });
});

describe("the account that runs Postgres", () => {
  test.runIf(isRoot)("need not be able to walk to the data directory", async () => {
    await chmod(db().dataDirectory, 0o700);
    const inner = path.join(db().dataDirectory, "below");
    await mkdir(inner, { mode: 0o700 });
    const first = await db().start({ directory: inner });
    await db().open(first.connectionString)`create table kept as select 42 as answer`;
    await first.stop();
    const second = await db().start({ directory: inner });
    expect(await db().open(second.connectionString)`select answer from kept`).toEqual([{ answer: 42 }]);
  });

  test.runIf(canBeNobody)("is the service's own when that is an ordinary user", async () => {
    await chown(db().dataDirectory, nobody.uid, nobody.gid);
    const owner = db().startOwner(nobody);
    const answer = await owner.answer;
    expect(answer.error).toBeUndefined();
    expect((await stat(`/proc/${String(await db().postmasterPid())}`)).uid).toBe(nobody.uid);
    const exited = once(owner.process, "exit");
    owner.process.stdin.end();
    expect(await exited).toEqual([0, null]);
    expect(await db().processes("postgres")).toEqual([]);
    // Root takes the cluster over as its owner, not as an account of its own choice.
    await db().start();
    expect((await stat(`/proc/${String(await db().postmasterPid())}`)).uid).toBe(nobody.uid);
  });
});

describe("the copy of the programs, for an account that cannot reach the installation", () => {
  test("runs by itself, links of its libraries included, is made once, and is not trusted when others may change it", async () => {
    const cache = path.join(db().dataDirectory, "cache");
    const [copy, same] = await Promise.all([
      copyPrograms(nativeDirectory(), cache),
      copyPrograms(nativeDirectory(), cache),
    ]);
    expect(same).toBe(copy);
    expect(await readdir(cache)).toEqual([path.basename(copy)]);
    await expect(readlink(path.join(copy, "lib", "libicuuc.so.60"))).resolves.toBe("libicuuc.so.60.2");
    const version = spawn(path.join(copy, "bin", "postgres"), ["--version"], { stdio: "ignore" });
    expect(await once(version, "close")).toEqual([0, null]);
    // It is not trusted when somebody else could have changed it.
    await chmod(copy, 0o777);
    expect((await failure(copyPrograms(nativeDirectory(), cache))).message).toMatch(
      /writable by nobody else: remove it/u,
    );
  });

  test("is complete when the install script of the package has not run", async () => {
    const bare = path.join(db().dataDirectory, "package", "native");
    await cp(nativeDirectory(), bare, { recursive: true, verbatimSymlinks: true });
    await cp(path.join(nativeDirectory(), "..", "package.json"), path.join(bare, "..", "package.json"));
    await rm(path.join(bare, "lib", "libicuuc.so.60"));
    const copy = await copyPrograms(bare, path.join(db().dataDirectory, "cache"));
    const version = spawn(path.join(copy, "bin", "postgres"), ["--version"], { stdio: "ignore" });
    expect(await once(version, "close")).toEqual([0, null]);
  });
});

describe("what cannot work gets one sentence", () => {
  test("a directory that is not a cluster", async () => {
    await mkdir(db().pgdata, { recursive: true });
    await writeFile(path.join(db().dataDirectory, "postgres", "password"), "x\n");
    await writeFile(path.join(db().pgdata, "holiday.txt"), "");
    expect((await failure(db().start())).message).toMatch(/pgdata is not a Postgres cluster .* move it/u);
  });

  test("a cluster whose password is gone, or another one", async () => {
    await db().copyTemplate();
    await (await db().start()).stop();
    const file = path.join(db().dataDirectory, "postgres", "password");
    await writeFile(file, "0000\n");
    expect((await failure(db().start())).message).toMatch(/does not fit the database/u);
    expect(await db().processes("postgres")).toEqual([]);
    await rm(file);
    expect((await failure(db().start())).message).toMatch(/password of the database .* is missing/u);
  });

  test("a file where its directory would be, or above it", async () => {
    const file = path.join(db().dataDirectory, "postgres");
    await writeFile(file, "");
    expect((await failure(db().start())).message).toMatch(/postgres cannot be made, .* correct SVC_DATA_DIR/u);
    await expect(prepareDirectory(file)).rejects.toMatchObject({ code: "NOT_CONFIGURED" });
  });

  test("a file system that is read-only, by the name that Node.js gives to it", () => {
    const asked = Object.assign(new Error("no such file or directory, mkdir '/data/postgres'"), { code: "ENOENT" });
    expect(directoryFailure("/data/postgres", asked)).toMatchObject({
      code: "NOT_CONFIGURED",
      message: expect.stringContaining("read-only"),
    });
  });

  test.runIf(canBeNobody)("a directory that belongs to somebody else", async () => {
    await mkdir(path.join(db().dataDirectory, "postgres"), { mode: 0o700 });
    await chmod(db().dataDirectory, 0o755);
    const { error } = await db().startOwner(nobody).answer;
    expect(error).toMatch(/cannot be written by this user: run the service as its owner/u);
  });

  test("a full disk, missing libraries, and whatever else Postgres says", () => {
    const said = (...lines: string[]): string => startFailure("postgres", "/d", lines).message;
    expect(said('FATAL:  could not write to file "pg_wal/xlogtemp.7": No space left on device')).toBe(
      "No space is left on the disk that holds the database directory /d: free some and start again.",
    );
    expect(said("initdb: error while loading shared libraries: libicui18n.so.60: cannot open shared object")).toMatch(
      /run "npx -y pnpm@12 rebuild"/u,
    );
    expect(said("FATAL:  database files are incompatible with server")).toMatch(/\/d was made by another version/u);
    expect(
      said(
        'postgres: could not access the server configuration file "/proc/self/cwd/postgresql.conf": Permission denied',
      ),
    ).toMatch(/may not read the database directory \/d: .* cp -a/u);
    expect(said("LOG:  starting", "FATAL:  something else", "LOG:  shut down")).toBe(
      'The embedded Postgres in /d did not start: postgres says "FATAL:  something else".',
    );
  });

  test("no Postgres is left behind when a start fails half way", async () => {
    await db().copyTemplate();
    await (await db().start()).stop();
    const configuration = path.join(db().pgdata, "postgresql.conf");
    await writeFile(configuration, "nonsense = 1\n");
    expect((await failure(db().start())).message).toMatch(/did not start: postgres says/u);
    expect(await db().processes("postgres")).toEqual([]);
    // The lock was given back: the same answer again, not "in use".
    expect((await failure(db().start())).message).toMatch(/did not start: postgres says/u);
  });
});

test("the data directory may hold spaces and be reached through a symbolic link", async () => {
  const real = path.join(db().dataDirectory, "with a space");
  const linked = path.join(db().dataDirectory, "link");
  await mkdir(real);
  await symlink(real, linked);
  await db().start({ directory: linked });
  // The same directory by its other name is the same lock.
  const again = await failure(db().start({ directory: real }));
  expect(again.message).toMatch(/in use by another instance/u);
  await access(path.join(real, "postgres", "pgdata", "PG_VERSION"));
});
