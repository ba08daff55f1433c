/** `pnpm bench` as a command: what it refuses, and what is left of it when it is interrupted. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";

import { type Bench, benches } from "../../bench/run/benches.js";
import { until } from "../helpers/until.js";

const main = fileURLToPath(new URL("../../bench/main.js", import.meta.url));
let directory = "";

beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), "bench-command-"));
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

interface Run {
  readonly process: ChildProcess;
  /** Both streams. */
  readonly output: () => string;
  readonly stdout: () => string;
  /** Exit code. */
  readonly ended: Promise<number | null>;
}

const bench = (...args: string[]): Run => benchWith({}, ...args);

function benchWith(environment: Readonly<Record<string, string>>, ...args: string[]): Run {
  const child = spawn(process.execPath, [main, ...args], {
    env: { ...process.env, BENCH_DIR: directory, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [output, stdout] = ["", ""];
  const read = (chunk: Buffer): void => {
    output += chunk.toString();
  };
  child.stdout.on("data", read);
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", read);
  return {
    process: child,
    output: () => output,
    stdout: () => stdout,
    ended: once(child, "close").then(([code]) => code as number | null),
  };
}

/** Command lines of processes that work in the directory, or that were told of it. */
function processesThere(except: number): string[] {
  const found: string[] = [];
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/u.test(entry) && Number(entry) !== except)) {
    try {
      const read = (file: string): string => readFileSync(`/proc/${name}/${file}`, "latin1");
      const command = read("cmdline");
      const isThere = readlinkSync(`/proc/${name}/cwd`).startsWith(directory);
      if (command !== "" && (isThere || `${command}${read("environ")}`.includes(directory))) {
        found.push(command.replaceAll("\0", " "));
      }
    } catch (error) {
      // Ended meanwhile, or another user's.
      if (!["ENOENT", "ESRCH", "EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "")) {
        throw error;
      }
    }
  }
  return found;
}

test.each(["SIGINT", "SIGTERM"] as const)("%s leaves no process and no directory behind", async (signal) => {
  const run = bench("ingest", "--seconds", "120");
  const running = (part: string): boolean =>
    processesThere(run.process.pid ?? 0).some((command) => command.includes(part));
  try {
    await until(() => {
      if (run.process.exitCode !== null) {
        throw new Error(`the bench ended:\n${run.output()}`);
      }
      return ["load-generator.js", "telemetry-ingestion-srv.js", "postgres"].every(running);
    });
  } finally {
    run.process.kill(signal);
  }
  expect(await run.ended).toBe(130);
  expect(processesThere(run.process.pid ?? 0)).toEqual([]);
  expect(readdirSync(directory)).toEqual([]);
});

test("ends when it fails, whatever it has started, and leaves nothing behind", async () => {
  const module = `import threads from "node:worker_threads";
    import { syncBuiltinESMExports } from "node:module";
    threads.Worker = class { constructor() { setInterval(() => {}, 1000); throw new Error("no thread is left"); } };
    syncBuiltinESMExports();`;
  const run = benchWith({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(module)}` }, "auth");
  expect(await run.ended).toBe(1);
  expect(run.output()).toContain("no thread is left");
  expect(processesThere(run.process.pid ?? 0)).toEqual([]);
  expect(readdirSync(directory)).toEqual([]);
});

test.each([
  [["ingest", "--records", "10,x"], /^--records takes whole numbers above 0 with commas between them, not "10,x"$/u],
  [["nothing"], /^there is no bench "nothing"; /u],
  [["--minutes", "-"], /^--minutes takes a number above 0, not "-"; /u],
  [["--only", "ingest,nothing"], /^--only: there is no bench "nothing" in the whole set; /u],
  [["profile"], /^profile takes the name of a bench; /u],
  [["profile", "nothing"], /^there is no bench "nothing"; /u],
  [["compare", "a.json"], /^compare takes two files; /u],
])("%j gets a sentence", async (args, sentence) => {
  const run = bench(...args);
  expect(await run.ended).toBe(2);
  expect(run.output().trim()).toMatch(sentence);
});

/** The bench itself, without a process of its own. */
async function loaded(id: string): ReturnType<Bench["load"]> {
  const found = benches.find((one) => one.id === id);
  if (found === undefined) {
    throw new Error(`there is no bench ${id}`);
  }
  return await found.load();
}

test.each([
  ["ingest", ["--connections", "0"], /^--connections takes a whole number above 0, not "0"$/u],
  ["auth", ["--seconds", "soon"], /^--seconds takes a number of at least 1, not "soon"$/u],
  ["soak", ["--colour"], /^Unknown option '--colour'; `pnpm bench soak --help` lists the options$/u],
  ["peers", ["--collector", "/nothing"], /^--collector: \/nothing is no program that can be run$/u],
  ["peers", ["--collector", "/"], /^--collector: \/ is no program that can be run$/u],
  ["peers", ["--url", "http://127.0.0.1:4318"], /^--pid takes the process of --url; there is no process 0$/u],
  ["decode", ["--only", "nothing"], /^--only: no workload is named so; there are "logs, 10 a request, from 8", /u],
  ["hurt", ["--only", "S1,nothing"], /^--only: there is no attack "nothing"$/u],
  ["questions", ["--only", "1,99"], /^--only takes numbers from 1 to 25, not "1,99"$/u],
])("%s with %j gets a sentence", async (id, args, sentence) => {
  const run = await loaded(id);
  await expect(run(args)).rejects.toMatchObject({ isHelp: false, message: expect.stringMatching(sentence) });
});

test.each(benches.map(({ id }) => id))(
  "--help lists the options of %s, and another one gets a sentence",
  async (id) => {
    const run = await loaded(id);
    const help = new RegExp(`^pnpm bench ${id}: [^]*\n  --\\w+ +\\w`, "u");
    await expect(run(["--help"])).rejects.toMatchObject({ isHelp: true, message: expect.stringMatching(help) });
    await expect(run(["--colour"])).rejects.toThrow(
      `Unknown option '--colour'; \`pnpm bench ${id} --help\` lists the options`,
    );
  },
);

test("--help of a bench is printed", async () => {
  const run = bench("ingest", "--help");
  expect(await run.ended).toBe(0);
  expect(run.output()).toMatch(/--records +records a request; each size is a run \(.*default 1000\)/u);
});

test.each([["help"], ["profile", "--help"], ["compare", "--help"]])("%s %s lists the benches", async (...args) => {
  const run = bench(...args);
  expect(await run.ended).toBe(0);
  expect(run.output()).toMatch(/^pnpm bench \[--json\][^]*\n  ingest +CPU a record/u);
});

/** One of the eight workloads with logs: what is tested here is the same for all. */
const workload = "logs, 1000 a request";

test("--json prints nothing but the result", async () => {
  const run = bench("decode", "--json", "--seconds", "0.1", "--only", workload);
  expect(await run.ended).toBe(0);
  const { how, figures } = JSON.parse(run.stdout()) as {
    how: string;
    figures: { id: string; value: number }[];
  };
  expect(how).toBe("done");
  expect(figures.length).toBeGreaterThan(0);
  for (const { id, value } of figures) {
    expect(id).toContain(workload);
    expect(value).toBeGreaterThan(0);
  }
});

test("profile says where a bench's time goes, and keeps the profiles", async () => {
  const run = bench("profile", "decode", "--json", "--seconds", "0.1", "--only", workload);
  expect(await run.ended).toBe(0);
  const {
    directory: kept,
    busyMicros,
    modules,
  } = JSON.parse(run.stdout()) as {
    directory: string;
    busyMicros: number;
    modules: { module: string; micros: number }[];
  };
  try {
    expect(modules.map(({ module }) => module)).toContain("src/ingest/decode/decode-logs.ts");
    expect(modules.reduce((sum, { micros }) => sum + micros, 0)).toBeCloseTo(busyMicros, -1);
    expect(readdirSync(path.join(kept, "server")).some((file) => file.endsWith(".cpuprofile"))).toBe(true);
    expect(existsSync(path.join(kept, "flame.svg"))).toBe(true);
  } finally {
    rmSync(kept, { recursive: true, force: true });
  }
});

test("profile says why it cannot", async () => {
  const run = bench("profile", "endpoint");
  expect(await run.ended).toBe(3);
  expect(run.output()).toMatch(/^endpoint loads a process that it has not started/u);
});

test("peers runs the server and another receiver in turns, for each number of senders", async () => {
  const front = spawn(process.execPath, [fileURLToPath(new URL("../../bench/load/bare-front.js", import.meta.url))], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const [url] = (await once(front.stdout, "data")) as [Buffer];
    const peer = ["--url", url.toString().trim(), "--pid", String(front.pid)];
    const short = "--seconds 0.5 --warm-up 0.1 --rounds 2 --records 10 --connections 2,8 --signals logs --json".split(
      " ",
    );
    const run = bench("peers", ...peer, ...short);
    expect(await run.ended).toBe(0);
    const { figures } = JSON.parse(run.stdout()) as { figures: { id: string; rounds: number[] }[] };
    const ids = ["server", "peer", "server to peer"];
    expect(figures.map(({ id }) => id)).toEqual(
      [2, 8].flatMap((from) => ids.map((id) => `logs 10 from ${from}, ${id}`)),
    );
    expect(figures[0]?.rounds).toHaveLength(2);
    expect(Math.min(...(figures[0]?.rounds ?? []))).toBeGreaterThan(0);
  } finally {
    front.kill();
  }
});

test("peers without a peer says what it takes", async () => {
  const run = bench("peers");
  expect(await run.ended).toBe(3);
  expect(run.output().trim()).toMatch(/^there is no peer: --collector takes the program of a Collector, /u);
});
