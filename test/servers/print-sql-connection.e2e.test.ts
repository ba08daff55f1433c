/** The database of a monolith, shared with a second server on the machine. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

import { flightInfo, grpcOk } from "../helpers/auth/auth-grpc.js";
import {
  developmentVariables,
  type Finished,
  type MonolithProcess,
  runProgram,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";
import { startServerProcess } from "../helpers/servers/server-process.js";

let data: Awaited<ReturnType<typeof temporaryDirectory>>;
let monolith: MonolithProcess;

beforeAll(async () => {
  data = await temporaryDirectory();
  monolith = await startMonolithProcess(data.directory);
});
afterAll(async () => {
  await monolith.stop();
  await data.remove();
});

const ask = (directory = data.directory, env: Record<string, string> = {}): Promise<Finished> =>
  runProgram("src/bin/telemetry-monolith.js", ["--print-sql-connection", `--data-dir=${directory}`], { env });

const notRunning = /^telemetry-monolith: no database runs in \S+: start the service there first[^\n]*\n$/;

it("prints one line, with which a second server answers queries", async () => {
  const asked = await ask();
  expect(asked).toMatchObject({ code: 0, stderr: "" });
  expect(asked.stdout).toMatch(/^postgres:\/\/telemetry:\w+@127\.0\.0\.1:\d+\/telemetry\n$/);
  const second = await startServerProcess(
    "flight-sql-srv",
    {
      SVC_SQL_CONNECTION_STRING: asked.stdout.trim(),
      SVC_DATA_DIR: data.directory,
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
    },
    /Flight SQL on (grpc:\/\/127\.0\.0\.1:[1-9]\d*)/u,
  );
  const { SVC_ANALYTICS_API_KEY: key } = await developmentVariables(data.directory);
  const answer = await flightInfo(
    Number(new URL(second.url).port),
    { authorization: `Bearer ${key}` },
    "SELECT count(*) FROM log_entries",
  );
  expect(answer.status).toBe(grpcOk);
  expect(await second.end("SIGTERM")).toBe(0);
  expect(monolith.output() + second.output()).not.toContain(new URL(asked.stdout).password);
});

it("prints the configured one where the database is somebody else's", async () => {
  const configured = "postgres://ann:secret@db.example/telemetry";
  expect(await ask(data.directory, { SVC_SQL_CONNECTION_STRING: configured })).toEqual({
    code: 0,
    stdout: `${configured}\n`,
    stderr: "",
  });
});

it("says what to do where no database runs, and starts none", async () => {
  const empty = await temporaryDirectory();
  const asked = await ask(empty.directory);
  expect(asked).toMatchObject({ code: 1, stdout: "" });
  expect(asked.stderr).toMatch(notRunning);
  await empty.remove();
});

it("says so, too, where a database has ended and left its lock file", async () => {
  await monolith.stop();
  // Port 9 answers nobody.
  await writeFile(path.join(data.directory, "postgres/pgdata/postmaster.pid"), "1\n/pgdata\n0\n9\n");
  const asked = await ask();
  expect(asked).toMatchObject({ code: 1, stdout: "" });
  expect(asked.stderr).toMatch(notRunning);
});
