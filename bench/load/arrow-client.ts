/**
 * A client that is not JavaScript, and DuckDB in a process of its own, both in Python: what results are
 * streamed to and compared with. The packages live in a virtual environment that is made once.
 */
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** What taking a result as an Arrow table took. */
export interface TableReading {
  readonly seconds: number;
  /** Seconds of CPU that the process used for it. */
  readonly cpu: number;
  readonly rows: number;
  readonly bytes: number;
}

/** A process that takes tables, one after the other. */
export interface ArrowClient {
  /** Over Flight SQL; `key` is null where none is asked for. */
  flight(uri: string, key: string | null, sql: string): Promise<TableReading>;
  /** Out of a DuckDB in the process, where `log_entries` is made of these files. */
  duckdb(files: readonly string[], sql: string): Promise<TableReading>;
  stop(): void;
}

const run = promisify(execFile);
// Compiled, this file is dist/bench/load/arrow-client.js.
const script = fileURLToPath(new URL("../../../bench/load/arrow-client.py", import.meta.url));

/**
 * The directory of the programs of a virtual environment with the packages; makes it if there is none.
 * @throws what went wrong; it takes Python 3 and, the first time, a package registry
 */
export async function pythonPrograms(root: string, packages: readonly string[]): Promise<string> {
  const directory = path.join(root, "telemetry-bench-python");
  const programs = path.join(directory, "bin");
  const python = path.join(programs, "python");
  if (!existsSync(python)) {
    await run("python3", ["-m", "venv", directory]);
  }
  await run(python, ["-m", "pip", "install", "--quiet", ...packages], { maxBuffer: 64 << 20 });
  return programs;
}

/** Starts a process that takes tables. */
export function startArrowClient(programs: string): ArrowClient {
  const child = spawn(path.join(programs, "python"), [script], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (request: object): Promise<TableReading> => {
    child.stdin.write(`${JSON.stringify(request)}\n`);
    const { value, done } = await lines.next();
    if (done === true) {
      throw new Error("the Arrow client has ended");
    }
    const answer = JSON.parse(value) as TableReading | { readonly error: string };
    if ("error" in answer) {
      throw new Error(answer.error);
    }
    return answer;
  };
  return {
    flight: (uri, key, sql) => ask({ uri, key, sql }),
    duckdb: (files, sql) => ask({ files, sql }),
    stop: () => {
      child.stdin.end();
    },
  };
}
