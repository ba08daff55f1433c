/**
 * `pnpm test:faults [--s3] [--minutes M] [--seed N]`: does the promise hold while processes die?
 *
 * Three ingestion servers, two analytics servers and two of maintenance share an embedded Postgres and a lake: of files,
 * or with `--s3` a bucket behind an object cache. Senders remember what was acknowledged; readers compare what they see
 * with that; processes are killed, stopped, started again and added (lanes.ts) while maintenance merges, erases and
 * removes what is past (chores.ts). Exit code 1 when anything was not as it should be (trial.ts).
 * Without `--minutes` faults end after a minute, or after 50 kills where those take longer.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";

import { findS3Server } from "../helpers/lake/s3-server.js";
import { useRunDirectory } from "../helpers/run-directory.js";
import { bucketLake, directoryLake } from "./lakes.js";
import { report } from "./report.js";
import { runTrial } from "./trial.js";

const leastKills = 50;
/** Longest time that 50 kills may take; a machine that does nothing else needs little more than one minute. */
const mostMinutes = 4;

const { values } = parseArgs({
  options: { minutes: { type: "string" }, seed: { type: "string" }, s3: { type: "boolean", default: false } },
});
const minutes = Number(values.minutes ?? "1");
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e6));
if (!(minutes > 0) || !Number.isInteger(seed)) {
  throw new Error("--minutes takes a positive number, --seed a whole one");
}

useRunDirectory();
const interrupted = new AbortController();
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(name, () => interrupted.abort());
}

/** Says how far it is, and after how long. */
const say = (what: string): void => console.log(`${(performance.now() / 1000).toFixed(0).padStart(5)} s  ${what}`);
say(`seed ${seed}`);
const program = values.s3 ? await findS3Server() : null;
if (values.s3 && program === null) {
  throw new Error("--s3 needs Go, which builds the server of the bucket");
}
const dataDirectory = await mkdtemp(path.join(tmpdir(), "faults-"));
const lake = program === null ? directoryLake(path.join(dataDirectory, "lake")) : await bucketLake(program);
try {
  const outcome = await runTrial({
    lake,
    dataDirectory,
    seed,
    minutes,
    leastKills,
    mostMinutes,
    interrupted: interrupted.signal,
    minted: () => undefined,
    say,
  });
  if (outcome === null) {
    console.log("interrupted");
    process.exitCode = 130;
  } else {
    console.log(report(outcome).join("\n"));
    if (outcome.problems.length > 0) {
      console.log(`again: pnpm test:faults${values.s3 ? " --s3" : ""} --seed ${seed}`);
      process.exitCode = 1;
    }
  }
} finally {
  await lake.stop();
  await rm(dataDirectory, { recursive: true, force: true, maxRetries: 5 });
}
// Timers of clients do not hold the process.
process.exit();
