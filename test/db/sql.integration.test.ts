import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createSecureContext, TLSSocket } from "node:tls";
import { promisify } from "node:util";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { connect, isConnectionError, type Sql, sqlState } from "../../src/db/sql.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { failure } from "../helpers/failure.js";
import { assertTestDatabase, createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { startWire } from "../helpers/postgres/wire.js";
import { until } from "../helpers/until.js";

const logger = createSilentLogger();

let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
});
afterEach(() => db.drop());

async function withPool<T>(
  connectionString: string,
  use: (sql: Sql) => Promise<T>,
  more?: { statementTimeoutMs?: number; connectTimeoutSeconds?: number },
): Promise<T> {
  const sql = connect({
    connectionString,
    maxConnections: 1,
    applicationName: "test-pool",
    logger,
    ...more,
  });
  try {
    return await use(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

describe("values", () => {
  test("int8 is bigint both ways, beyond what a number holds, in columns and arrays", async () => {
    const big = 2n ** 63n - 1n;
    const [row] = await db.sql`
      select ${big}::int8 as one, ${["1", String(big)]}::int8[] as many,
        null::int8 as none, count(*) as count`;
    expect(row).toEqual({ one: big, many: [1n, big], none: null, count: 1n });
  });

  test("uuid arrays, bytes, JSON and times come back as they went in", async () => {
    const ids = ["6b9b2a4e-5b0f-4d5c-8a52-4f3f0a0d1c2b", "00000000-0000-4000-8000-000000000000"];
    const time = new Date("2026-01-02T03:04:05.678Z");
    const [row] = await db.sql`
      select ${ids}::uuid[] as ids, ${Buffer.from([0, 255])}::bytea as bytes,
        ${db.sql.json({ a: [1, null] })}::jsonb as json, ${time}::timestamptz as time`;
    expect(row).toEqual({ ids, bytes: Buffer.from([0, 255]), json: { a: [1, null] }, time });
  });
});

test("what the database sets for its sessions changes neither values, nor which tables are found, nor durability", async () => {
  const [{ name } = { name: "" }] = await db.sql<{ name: string }[]>`select current_database() as name`;
  await db.sql`create schema other`;
  await db.sql`create table other.blocks (id integer)`;
  for (const [setting, value] of [
    ["search_path", "other, public"],
    ["DateStyle", "'SQL, DMY'"],
    ["IntervalStyle", "sql_standard"],
    ["TimeZone", "'Asia/Kolkata'"],
    ["bytea_output", "escape"],
    ["extra_float_digits", "-15"],
    ["standard_conforming_strings", "off"],
    ["default_transaction_isolation", "serializable"],
    ["synchronous_commit", "off"],
  ] as const) {
    await db.sql.unsafe(`alter database ${name} set ${setting} = ${value}`);
  }
  await withPool(db.connectionString, async (sql) => {
    const [row] = await sql`
      select 'blocks'::regclass = 'public.blocks'::regclass as ours, '2026-04-03T01:02:03Z'::timestamptz as time,
        '2026-04-03T01:02:03Z'::timestamptz::text as text, interval '26 hours'::text as interval,
        '\\x00ff'::bytea as bytes, 0.1::float8 + 0.2::float8 as float,
        current_setting('transaction_isolation') as isolation,
        current_setting('synchronous_commit') as commits`;
    expect(row).toEqual({
      ours: true,
      time: new Date("2026-04-03T01:02:03Z"),
      text: "2026-04-03 01:02:03+00",
      interval: "26:00:00",
      bytes: Buffer.from([0, 255]),
      float: 0.1 + 0.2,
      isolation: "read committed",
      commits: "on",
    });
  });
});

describe("a connection error", () => {
  test("is not what a wrong statement ends with", async () => {
    for (const [statement, state] of [
      ["select nothing", "42703"],
      ["select 1 / 0", "22012"],
      ["insert into audience_grants values ('public', 'read', '*', now(), 'me')", "23505"],
    ] as const) {
      const error = await failure(db.sql.unsafe(statement));
      expect([sqlState(error), isConnectionError(error)]).toEqual([state, false]);
    }
    expect(isConnectionError(new Error("x"))).toBe(false);
    expect(isConnectionError("ECONNREFUSED")).toBe(false);
  });

  test("is a refused connection, by address and by name", async () => {
    const server = net.createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as net.AddressInfo;
    server.close();
    await once(server, "close");
    for (const host of ["127.0.0.1", "localhost"]) {
      const url = `postgres://u:secret@${host}:${String(port)}/d`;
      const error = await withPool(url, (sql) => failure(sql`select 1`));
      expect(isConnectionError(error)).toBe(true);
      expect(isConnectionError(new Error("outer", { cause: error }))).toBe(true);
      expect(JSON.stringify(error) + String(error.stack)).not.toContain("secret");
    }
  });

  test("is an address that the system does not even try", async () => {
    // It takes no connections: what is told of one without a route, or without a file descriptor, comes as early.
    const error = await withPool("postgres://u:p@255.255.255.255/d", (sql) => failure(sql`select 1`));
    expect(error).toMatchObject({ syscall: "connect" });
    expect(isConnectionError(error)).toBe(true);
    expect(isConnectionError(Object.assign(new Error("x"), { code: "EMFILE", syscall: "connect" }))).toBe(true);
    expect(isConnectionError(Object.assign(new Error("x"), { code: "EMFILE", syscall: "open" }))).toBe(false);
  });

  test("is a server that accepts and says nothing, or hangs up", async () => {
    for (const onSocket of [() => undefined, (socket: net.Socket) => socket.destroy()]) {
      const sockets: net.Socket[] = [];
      const server = net.createServer((socket) => {
        sockets.push(socket);
        onSocket(socket);
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address() as net.AddressInfo;
      const error = await withPool(`postgres://u:p@127.0.0.1:${String(port)}/d`, (sql) => failure(sql`select 1`), {
        connectTimeoutSeconds: 0.2,
      });
      expect(isConnectionError(error)).toBe(true);
      for (const socket of sockets) {
        socket.destroy();
      }
      server.close();
      await once(server, "close");
    }
  });

  test("is a server whose certificate is not trusted, or that has no TLS", async () => {
    const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-database-tls-"));
    const [keyFile, file] = ["key.pem", "certificate.pem"].map((name) => path.join(directory, name)) as [
      string,
      string,
    ];
    const made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"];
    await promisify(execFile)("openssl", ["req", ...made, "-keyout", keyFile, "-out", file]);
    const secureContext = createSecureContext({ cert: await readFile(file), key: await readFile(keyFile) });
    await rm(directory, { recursive: true });
    for (const [word, code] of [
      ["S", /^DEPTH_ZERO_SELF_SIGNED_CERT$/u],
      ["N", /^(?:ECONNRESET|ERR_SSL_)/u],
    ] as const) {
      const server = net.createServer((socket) => {
        socket.on("error", () => undefined);
        socket.once("data", () => {
          socket.write(word);
          if (word === "S") {
            new TLSSocket(socket, { isServer: true, secureContext }).on("error", () => undefined);
          } else {
            socket.once("data", () => socket.end("E"));
          }
        });
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address() as net.AddressInfo;
      const url = `postgres://u:p@127.0.0.1:${String(port)}/d?sslmode=verify-full`;
      const error = await withPool(url, (sql) => failure(sql`select 1`));
      expect(error).toMatchObject({ code: expect.stringMatching(code) as string });
      expect(isConnectionError(error)).toBe(true);
      server.close();
    }
  });

  test("is a session that the server does not begin", async () => {
    const [role, url] = [`nobody_${String(process.pid)}`, new URL(db.connectionString)];
    await db.sql.unsafe(`create role ${role} nologin password 'x'`);
    for (const [change, state] of [
      [{ username: role, password: "x" }, "28000"],
      [{ pathname: "/none" }, "3D000"],
      [{ search: "?schema=other" }, "42704"],
    ] as const) {
      const refused = String(Object.assign(new URL(url), change));
      const error = await withPool(refused, (sql) => failure(sql`select 1`));
      expect([sqlState(error), isConnectionError(error)]).toEqual([state, true]);
    }
    await db.sql.unsafe(`drop role ${role}`);
  });

  test("is a session that ends while the driver asks it for types, and ends nothing else", async () => {
    const wire = await startWire(db.connectionString, "client", "typcategory");
    await withPool(wire.connectionString, async (sql) => {
      expect(isConnectionError(await failure(sql`select 1`))).toBe(true);
      // An error that nobody has caught would have failed this test, and ended a server.
      expect(await sql`select ${["a", "b"]}::text[] as texts`).toEqual([{ texts: ["a", "b"] }]);
    });
    expect(wire.broken()).toBe(true);
    await wire.stop();
  });

  test("is a session that the server ended, with the statement under way", async () => {
    await withPool(db.connectionString, async (sql) => {
      const [self] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
      const waiting = failure(sql`select pg_sleep(60)`);
      await db.sql`select pg_terminate_backend(${self?.pid ?? 0})`;
      expect(isConnectionError(await waiting)).toBe(true);
      // The pool replaces the connection by itself.
      await until(() =>
        sql`select 1`.then(
          () => true,
          (error: unknown) => !isConnectionError(error),
        ),
      );
      expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    });
  });

  test("is the first statement of a session that ended, where there are several hosts", async () => {
    const url = new URL(db.connectionString);
    const several = db.connectionString.replace(url.host, `${url.host},${url.host}`);
    await withPool(several, async (sql) => {
      const waiting = failure(sql`select pg_sleep(60)`);
      await until(async () => {
        const ended = await db.sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and query = 'select pg_sleep(60)'`;
        return ended.length > 0;
      });
      expect(isConnectionError(await waiting)).toBe(true);
    });
  });

  test("is a statement over its time, a closed pool, and a database that is full of connections", async () => {
    const late = await withPool(db.connectionString, (sql) => failure(sql`select pg_sleep(60)`), {
      statementTimeoutMs: 50,
    });
    expect([sqlState(late), isConnectionError(late)]).toEqual(["57014", true]);

    const closed = await withPool(db.connectionString, (sql) => Promise.resolve(sql));
    expect(isConnectionError(await failure(closed`select 1`))).toBe(true);

    const role = `r${new URL(db.connectionString).pathname.slice(-16)}`;
    await db.sql.unsafe(`create role ${role} login password 'p' connection limit 0`);
    try {
      const url = new URL(db.connectionString);
      url.username = role;
      url.password = "p";
      const full = await withPool(url.href, (sql) => failure(sql`select 1`));
      expect([sqlState(full), isConnectionError(full)]).toEqual(["53300", true]);
    } finally {
      await db.sql.unsafe(`drop role ${role}`);
    }
  });

  test("is a database that is full of connections when one that was at a statement is to be replaced", async () => {
    const role = `r${new URL(db.connectionString).pathname.slice(-16)}`;
    await db.sql.unsafe(`create role ${role} login password 'p'`);
    const url = new URL(db.connectionString);
    url.username = role;
    url.password = "p";
    await withPool(url.href, async (sql) => {
      const waiting = failure(sql`select pg_sleep(60)`);
      await until(async () => {
        const sessions = await db.sql`select from pg_stat_activity where usename = ${role} and state = 'active'`;
        return sessions.length === 1;
      });
      await db.sql.unsafe(`alter role ${role} connection limit 0`);
      await db.sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}`;
      expect(isConnectionError(await waiting)).toBe(true);
      expect(sqlState(await failure(sql`select 1`))).toBe("53300");
      await db.sql.unsafe(`alter role ${role} connection limit -1`);
      expect(await sql`select 1 as one`).toEqual([{ one: 1 }]);
    });
    await db.sql.unsafe(`drop role ${role}`);
  });
});

test("a connection string that cannot be read is refused without being repeated", async () => {
  for (const connectionString of ["postgres://u:hunter2@[", "http//hunter2:x@:99999999/"]) {
    const error = await failure(Promise.resolve().then(() => withPool(connectionString, (sql) => sql`select 1`)));
    expect(JSON.stringify(error) + String(error.stack) + String(error.cause)).not.toContain("hunter2");
  }
});

test("notices go to the log, not to the console", async () => {
  const lines: string[] = [];
  const { createLogger } = await import("../../src/runtime/log/log.js");
  const captured = createLogger({
    level: "debug",
    service: "test",
    destination: { write: (line: string) => void lines.push(line) },
  });
  const sql = connect({
    connectionString: db.connectionString,
    maxConnections: 1,
    applicationName: "test-notices",
    logger: captured,
  });
  await sql`drop table if exists no_such_table`;
  await sql.end();
  expect(lines.join("")).toContain("no_such_table");
});

test("the helpers refuse a database that is not a test's", () => {
  expect(() => assertTestDatabase(db.connectionString)).not.toThrow();
  const url = new URL(db.connectionString);
  for (const change of [
    () => (url.pathname = "/telemetry"),
    () => (url.pathname = "/tsvc_test_template"),
    () => {
      url.pathname = new URL(db.connectionString).pathname;
      url.hostname = "db.example.com";
    },
  ]) {
    change();
    expect(() => assertTestDatabase(url.href)).toThrow(/Refusing to touch/u);
  }
});

test("a pool that a test leaves open fails it", async () => {
  const other = await createTestDatabase();
  const leaked = connect({
    connectionString: other.connectionString,
    maxConnections: 1,
    applicationName: "leaky",
    logger,
  });
  await leaked`select 1`;
  expect((await failure(other.drop(200))).message).toBe("1 database connections were left open: leaky");
  await leaked.end({ timeout: 1 });
});
