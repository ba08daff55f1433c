/**
 * `pnpm bench`: the whole set in a short form. `pnpm bench NAME [options]`: one bench in full.
 * `pnpm bench profile NAME`: where its CPU time goes. `pnpm bench compare A.json B.json`: what moved between two results.
 */
import { parseArgs } from "node:util";

import { profileBench } from "./profile/command.js";
import { machineSpeed } from "./run/machine.js";
import { saveResults } from "./run/results.js";
import { benches } from "./run/benches.js";
import { compareFiles } from "./run/compare.js";
import { printFigures, printRun } from "./run/report.js";
import { runSet } from "./run/run-set.js";
import { runBench } from "./run/session.js";

const usage = `pnpm bench [--json] [--minutes 12] [--only a,b] [--save NAME]
    the whole set in a short form; ends with 1 when a bench failed
pnpm bench NAME [--json] [options]
    one in full; --help lists its options
pnpm bench profile NAME [--json] [options]
    where the time of its servers and of their engines goes; without options its short form
pnpm bench compare A.json B.json [--json]
    what moved between two results of the whole set, beyond what their rounds differ by

${benches.map(({ id, what }) => `  ${id.padEnd(14)}${what}`).join("\n")}`;

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    process.exitCode = 130;
    stop.abort();
  });
}

/** Says what is wrong with the command line. */
function refuse(sentence: string): void {
  console.error(`${sentence}; \`pnpm bench --help\` says what there is`);
  process.exitCode = 2;
}

async function runAll(argv: readonly string[]): Promise<void> {
  let values;
  try {
    ({ values } = parseArgs({
      args: [...argv],
      options: {
        help: { type: "boolean", short: "h", default: false },
        json: { type: "boolean", default: false },
        minutes: { type: "string", default: "12" },
        only: { type: "string", default: "" },
        save: { type: "string" },
      },
    }));
  } catch (error) {
    refuse((error instanceof Error ? error.message : String(error)).split(". ")[0] ?? "");
    return;
  }
  if (values.help) {
    console.log(usage);
    return;
  }
  const minutes = /^\d+(?:\.\d+)?$/u.test(values.minutes) ? Number(values.minutes) : 0;
  if (minutes === 0) {
    refuse(`--minutes takes a number above 0, not ${JSON.stringify(values.minutes)}`);
    return;
  }
  const names = values.only.split(",").filter(Boolean);
  const unknown = names.find((name) => !benches.some(({ id, short }) => id === name && short !== null));
  if (unknown !== undefined) {
    refuse(`--only: there is no bench ${JSON.stringify(unknown)} in the whole set`);
    return;
  }
  if (values.save !== undefined && !/^[\w.-]+$/u.test(values.save)) {
    refuse(`--save takes a name of letters, digits, "-", "_" and ".", not ${JSON.stringify(values.save)}`);
    return;
  }
  const planned = benches.flatMap((bench) =>
    bench.short !== null && (names.length === 0 || names.includes(bench.id)) ? [{ bench, settings: bench.short }] : [],
  );
  const run = await runSet(planned, { minutes, stop: stop.signal, say: (line) => console.error(line) });
  if (stop.signal.aborted) {
    console.error("interrupted: nothing was saved");
    return;
  }
  if (values.json) {
    console.log(JSON.stringify(run, null, 2));
  } else {
    printRun(run);
  }
  const time = run.environment.date.slice(0, 19).replaceAll(/[-:]/gu, "");
  saveResults(values.save ?? `run-${time}-${run.environment.commit}`, run, (line) => console.error(line));
  if (run.results.some(({ how }) => how === "failed")) {
    process.exitCode = 1;
  }
}

async function runOne(id: string, argv: readonly string[]): Promise<void> {
  const bench = benches.find((one) => one.id === id);
  if (bench === undefined) {
    refuse(`there is no bench ${JSON.stringify(id)}`);
    return;
  }
  const isJson = argv.includes("--json");
  const settings = argv.filter((argument) => argument !== "--json");
  const before = machineSpeed();
  const ended = await runBench(id, settings, { output: isJson ? "stderr" : "inherit", stop: stop.signal });
  if (stop.signal.aborted) {
    console.error("interrupted");
    return;
  }
  const after = machineSpeed();
  if (isJson) {
    console.log(JSON.stringify({ id, settings, how: ended.how, before, after, figures: ended.figures }, null, 2));
  } else if (ended.how === "done" && ended.figures.length > 0) {
    printFigures(id, ended.figures);
    console.log(`a fixed loop took ${before.wallMs} ms before and ${after.wallMs} ms after`);
  }
  process.exitCode = ended.code;
}

async function runProfile(argv: readonly string[]): Promise<void> {
  const [id, ...settings] = argv.filter((argument) => argument !== "--json");
  const bench = benches.find((one) => one.id === id);
  if (bench === undefined) {
    refuse(id === undefined ? "profile takes the name of a bench" : `there is no bench ${JSON.stringify(id)}`);
    return;
  }
  if (settings.includes("--help") || settings.includes("-h")) {
    await runOne(bench.id, settings);
    return;
  }
  const code = await profileBench(bench, settings, { isJson: argv.includes("--json"), stop: stop.signal });
  if (stop.signal.aborted) {
    console.error("interrupted: nothing was kept");
    return;
  }
  process.exitCode = code;
}

const given = process.argv.slice(2).filter((argument) => argument !== "--");
const [name, ...rest] = given;
const asksForHelp = ["--help", "-h"].includes(rest[0] ?? "");
if (name === undefined || name.startsWith("-")) {
  await runAll(given);
} else if (name === "help" || (asksForHelp && (name === "profile" || name === "compare"))) {
  console.log(usage);
} else if (name === "profile") {
  await runProfile(rest);
} else if (name === "compare") {
  const isJson = rest.includes("--json");
  const [a, b, ...more] = rest.filter((argument) => argument !== "--json");
  if (a === undefined || b === undefined || more.length > 0) {
    refuse("compare takes two files");
  } else {
    try {
      compareFiles(a, b, isJson);
    } catch (error) {
      refuse(error instanceof Error ? error.message : String(error));
    }
  }
} else {
  await runOne(name, rest);
}
