/**
 * `pnpm test:faults [--s3] [--minutes M] [--seed N]`: does the promise hold while processes die?
 *
 * Three ingestion servers, two analytics servers and two of maintenance share an embedded Postgres and a lake: of files,
 * or with `--s3` a bucket behind an object cache. Senders remember what was acknowledged; readers compare what they see
 * with that; processes are killed, stopped, started again and added (lanes.ts) while maintenance merges, erases and
 * removes what is past (chores.ts). Exit code 1 when anything was not as it should be (trial.ts).
 * Faults end after a minute (`--minutes`), or after 50 kills where those take longer, but not four minutes.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { count, flag, number, readCommandOptions, Usage } from "../../bench/run/options.js";
import { findS3Server } from "../helpers/lake/s3-server.js";
import { useRunDirectory } from "../helpers/run-directory.js";
import { bucketLake, directoryLake } from "./lakes.js";
import { report } from "./report.js";
import { runTrial } from "./trial.js";

const leastKills = 50;
/** Longest time that 50 kills may take; a machine that does nothing else needs little more than one minute. */
const mostMinutes = 4;

const options = {
  minutes: number(1, "how long faults go on; up to 4 minutes where 50 kills take longer", 0.1),
  seed: count(1 + Math.floor(Math.random() * 1e6), "what is random follows from it, by default from another each time"),
  s3: flag("the lake is a bucket behind an object cache, whose server Go builds"),
};

/** Ends with a sentence when an option is wrong. */
function readArguments() {
  try {
    const about = "does the promise hold while processes die?";
    return readCommandOptions("pnpm test:faults", about, options, process.argv.slice(2));
  } catch (error) {
    if (error instanceof Usage) {
      console[error.isHelp ? "log" : "error"](error.message);
      process.exit(error.isHelp ? 0 : 2);
    }
    throw error;
  }
}

const { minutes, seed, s3 } = readArguments();

useRunDirectory();
const interrupted = new AbortController();
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(name, () => interrupted.abort());
}

/** Says how far it is, and after how long. */
const say = (what: string): void => console.log(`${(performance.now() / 1000).toFixed(0).padStart(5)} s  ${what}`);
say(`seed ${seed}`);
const program = s3 ? await findS3Server() : null;
if (s3 && program === null) {
  console.error("--s3 needs Go, which builds the server of the bucket");
  process.exit(2);
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
      console.log(`again: pnpm test:faults${s3 ? " --s3" : ""} --seed ${seed}`);
      process.exitCode = 1;
    }
  }
} finally {
  await lake.stop();
  await rm(dataDirectory, { recursive: true, force: true, maxRetries: 5 });
}
// Timers of clients do not hold the process.
process.exit();
