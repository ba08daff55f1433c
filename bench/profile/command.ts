/** `pnpm bench profile NAME [options]`: where the CPU time of a bench's servers and of their engines goes, by module. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { round } from "../figures.js";
import type { Bench } from "../run/benches.js";
import { describeEnvironment } from "../run/machine.js";
import { cannotMeasureCode, runBench } from "../run/session.js";
import { printTable } from "../run/table.js";
import { placesIn, prepareProfiles, profileVariable, selfProfileArguments, type Span } from "./attach.js";
import { type CpuProfile, type ProfileSums, type Share, sumProfiles, type ThreadProfile } from "./cpu-profile.js";
import { flameGraph } from "./flame-graph.js";

const projectUrl = new URL("../../../", import.meta.url);
const shownModules = 30;
const shownFunctions = 20;

/**
 * Runs the bench with these options, in its short form without any; prints tables and keeps the files.
 * @returns exit code of the command
 */
export async function profileBench(
  bench: Bench,
  argv: readonly string[],
  o: { readonly isJson: boolean; readonly stop: AbortSignal },
): Promise<number> {
  if (bench.id === "endpoint") {
    console.error("endpoint loads a process that it has not started: there is nothing to profile");
    return cannotMeasureCode;
  }
  const { commit, date } = describeEnvironment();
  const time = date.slice(0, 19).replaceAll(/[-:]/gu, "");
  const directory = fileURLToPath(new URL(`bench/results/profile-${bench.id}-${time}-${commit}`, projectUrl));
  const settings = argv.length === 0 && bench.short !== null ? bench.short : argv;
  prepareProfiles(directory);
  const ended = await runBench(bench.id, settings, {
    output: o.isJson ? "stderr" : "inherit",
    stop: o.stop,
    environment: { [profileVariable]: directory },
    nodeArguments: bench.isInProcess === true ? selfProfileArguments(directory) : [],
  });
  const { threads, unread } = readProfiles(directory);
  if (ended.how !== "done" || threads.length === 0) {
    rmSync(directory, { recursive: true, force: true });
    if (ended.how === "done") {
      console.error(whyNone(bench));
    }
    return ended.how === "done" ? cannotMeasureCode : ended.code;
  }
  const sums = sumProfiles(threads, readSpans(directory), projectUrl.href);
  if (sums.busyMicros === 0) {
    rmSync(directory, { recursive: true, force: true });
    console.error("the profiles hold no time in which something was measured and a thread was busy");
    return cannotMeasureCode;
  }
  const title = `pnpm bench profile ${[bench.id, ...settings].join(" ")}, ${commit}: ${seconds(sums.busyMicros)} s busy`;
  writeFileSync(path.join(directory, "flame.svg"), flameGraph(sums.root, title));
  if (o.isJson) {
    console.log(JSON.stringify({ id: bench.id, settings, commit, directory, unread, ...plain(sums) }, null, 2));
  } else {
    printSums(sums);
    console.log(`\nprofiles and flame.svg: ${path.relative(process.cwd(), directory)}`);
  }
  for (const line of unread) {
    console.error(line);
  }
  return 0;
}

const whyNone = ({ id }: Bench): string =>
  `${id} left no profile: it started no server, or the server was killed before it wrote one`;

/** The profiles of a run, and sentences about files that hold none, such as those of a process that was killed. */
function readProfiles(directory: string): { threads: ThreadProfile[]; unread: string[] } {
  const places = placesIn(directory);
  const threads: ThreadProfile[] = [];
  const unread: string[] = [];
  for (const kind of ["server", "engine"] as const) {
    for (const file of readdirSync(places[kind]).toSorted()) {
      // CPU.date.time.process.thread.number.cpuprofile
      const isMain = file.split(".")[4] === "0";
      try {
        const profile = JSON.parse(readFileSync(path.join(places[kind], file), "utf8")) as CpuProfile;
        threads.push({ thread: `${kind}, ${isMain ? "main" : "others"}`, profile });
      } catch (error) {
        unread.push(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }
  return { threads, unread };
}

function readSpans(directory: string): Span[] {
  const { spans } = placesIn(directory);
  return existsSync(spans)
    ? readFileSync(spans, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Span)
    : [];
}

const seconds = (micros: number): number => round(micros / 1e6);

function printSums(sums: ProfileSums): void {
  printTable(
    "threads",
    [...sums.threads].map(([thread, { busyMicros, idleMicros }]) => ({
      thread,
      "busy s": seconds(busyMicros),
      "share %": round((busyMicros / sums.busyMicros) * 100, 1),
      "idle s": seconds(idleMicros),
    })),
  );
  const threads = [...sums.threads.keys()];
  const rowOf = ({ micros, byThread }: Share): Record<string, number> => ({
    "share %": round((micros / sums.busyMicros) * 100, 1),
    s: seconds(micros),
    ...Object.fromEntries(threads.map((thread) => [`${thread} s`, seconds(byThread.get(thread) ?? 0)])),
  });
  printTable(
    "modules",
    withOthers(sums.modules, shownModules).map((share) => ({ ...rowOf(share), module: share.module })),
  );
  printTable(
    "functions",
    sums.functions
      .slice(0, shownFunctions)
      .map((share) => ({ ...rowOf(share), function: share.name, module: share.module })),
  );
}

/** The first ones, and a row for the rest. */
function withOthers(shares: readonly Share[], shown: number): readonly Share[] {
  const rest = shares.slice(shown);
  if (rest.length === 0) {
    return shares;
  }
  const others: Share = { module: `${rest.length} others`, name: "", micros: 0, byThread: new Map() };
  for (const { micros, byThread } of rest) {
    others.micros += micros;
    for (const [thread, part] of byThread) {
      others.byThread.set(thread, (others.byThread.get(thread) ?? 0) + part);
    }
  }
  return [...shares.slice(0, shown), others];
}

/** For JSON. */
function plain({ busyMicros, idleMicros, threads, modules, functions }: ProfileSums): object {
  const flat = ({ byThread, ...share }: Share): object => ({ ...share, byThread: Object.fromEntries(byThread) });
  return {
    busyMicros,
    idleMicros,
    threads: Object.fromEntries(threads),
    modules: modules.map(flat),
    functions: functions.slice(0, 200).map(flat),
  };
}
