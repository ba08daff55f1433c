/**
 * `pnpm bench query [--rows 50000000] [--partitions 1000] [--only first,scan,...] [--peer sail] [--save NAME]`
 *
 * The analytics server as a user runs it, in a process of its own, over a generated lake that is made
 * once (below BENCH_KEEP_DIR, else the system's directory for temporary files) and found again.
 *
 * first: time to the first batch of `SELECT 1`, flight info included, after 2000 others. scan: aggregations through the
 * server against bare DuckDB on the same files with as many threads. stream: results as Arrow tables in a process of
 * pyarrow against DuckDB's own Arrow tables in a process of its own; left out without Python. prune: objects
 * opened and statements about the catalogue by a query for one minute of 10,000. concurrent: 100 short
 * queries at once. cancel: from the cancellation until the query's place is free. memory: a result of
 * 100 million rows. `--peer sail` runs LakeSail Sail (`pysail`) over the same objects beside scan and stream.
 */
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

import { DuckDBInstance } from "@duckdb/node-api";

import { mintAnalyticsKey } from "../src/auth/keys/keys.js";
import { startEmbeddedPostgres } from "../src/db/embedded/embedded.js";
import { migrate } from "../src/db/migrations.js";
import { connect, type Sql } from "../src/db/sql.js";
import { createSilentLogger } from "../src/runtime/log/log.js";
import {
  atLeast,
  atMost,
  type Figure,
  figure,
  type FigureRow,
  median,
  notMeasured,
  quantile,
  repeat,
  round,
} from "./figures.js";
import { type AnalyticsServer, startAnalytics } from "./load/analytics-server.js";
import { type CatalogueProxy, startCatalogueProxy } from "./load/catalogue-proxy.js";
import { pythonPrograms } from "./load/arrow-client.js";
import { connectReader, type FlightReader } from "./load/flight-reader.js";
import { minuteOf, openQueryLake, publishObjects } from "./load/query-lake.js";
import { type Sail, startSail } from "./load/sail.js";
import { profiled } from "./profile/attach.js";
import { describeEnvironment, processMemory } from "./run/machine.js";
import { benchScan, benchStream, type Compared, minutes } from "./query-peers.js";
import { saveResults } from "./run/results.js";
import { count, readOptions, text, word, words } from "./run/options.js";
import { printTable } from "./run/table.js";

const sections = ["first", "scan", "stream", "concurrent", "cancel", "memory", "prune"] as const;
type Section = (typeof sections)[number];

/** Everything a section needs. */
interface Bench extends Compared {
  readonly healthUrl: string;
  readonly sql: Sql;
  readonly proxy: CatalogueProxy;
}

async function benchFirst({ reader }: Bench): Promise<FigureRow[]> {
  // V8 compiles what has run some thousand times; a server that has been up for a while is past that.
  await repeat(2000, () => reader.read("SELECT 1"));
  const known = await repeat(300, async () => (await reader.read("SELECT 1")).firstMs);
  const fresh = await repeat(300, async (i) => (await reader.read(`SELECT ${i}`)).firstMs);
  return [["text seen before", known] as const, ["new text", fresh] as const].map(([text, values]) => ({
    "query.first": text,
    "p50 ms": round(median(values)),
    "p99 ms": round(quantile(values, 0.99)),
    "target ms": 5,
  }));
}

async function benchConcurrent({ address, key, lake }: Bench): Promise<FigureRow[]> {
  const atOnce = 100;
  const readers = Array.from({ length: 8 }, () => connectReader(address, key));
  const rows: FigureRow[] = [];
  try {
    for (const [name, sqlOf] of [
      ["SELECT n", (i: number) => `SELECT ${i} AS n`],
      [
        "one minute of log_entries",
        (i: number) =>
          `SELECT level, count(*) FROM log_entries WHERE ${minutes(i % lake.objects.length, (i % lake.objects.length) + 1)} GROUP BY ALL`,
      ],
    ] as const) {
      const one = (i: number): Promise<number> =>
        (readers[i % readers.length] as FlightReader).read(sqlOf(i)).then(({ totalMs }) => totalMs);
      await repeat(atOnce, one);
      const single = await repeat(atOnce, one);
      const rounds = await repeat(5, async () => {
        const startMs = performance.now();
        const times = await Promise.all(Array.from({ length: atOnce }, (_, i) => one(i)));
        return {
          p99: quantile(times, 0.99),
          perSecond: (atOnce * 1000) / (performance.now() - startMs),
        };
      });
      const p99 = median(rounds.map((r) => r.p99));
      rows.push({
        concurrent: `${atOnce} x ${name}`,
        "single p50 ms": round(median(single)),
        "single p99 ms": round(quantile(single, 0.99)),
        "p99 ms": round(p99, 1),
        "p99 / single p50": round(p99 / median(single), 1),
        "queries/s": round(median(rounds.map((r) => r.perSecond)), 0),
      });
    }
  } finally {
    for (const reader of readers) {
      reader.close();
    }
  }
  return rows;
}

const cancelled: Readonly<Record<string, string>> = {
  "cross join": "SELECT count(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range + b.range = -1",
  sort: "SELECT * FROM log_entries ORDER BY msg",
  "sort without rows": "SELECT hash(i) AS h FROM range(1000000000) t(i) ORDER BY h",
  aggregation: "SELECT msg, count(*) FROM log_entries GROUP BY msg",
  "stalled reader": "SELECT * FROM log_entries",
};

async function gaugeOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name} (?<n>[0-9.]+)`, "mu").exec(text)?.groups?.["n"] ?? "-1");
}

async function benchCancel({ reader, healthUrl }: Bench): Promise<FigureRow[]> {
  const rows: FigureRow[] = [];
  for (const [name, sql] of Object.entries(cancelled)) {
    const taken = await repeat(7, async (i) => {
      const stream = await reader.open(sql);
      const ended = new Promise<void>((resolve) => {
        stream.on("error", () => {
          resolve();
        });
        stream.on("end", resolve);
      });
      if (name !== "stalled reader") {
        stream.on("data", () => undefined);
      }
      await sleep(200 + i * 60);
      if ((await gaugeOf(healthUrl, "query_running")) !== 1) {
        // It was too fast here, or failed: then there was nothing to cancel.
        stream.resume();
        await ended;
        return null;
      }
      const startMs = performance.now();
      stream.cancel();
      while ((await gaugeOf(healthUrl, "query_running")) !== 0) {
        await sleep(1);
      }
      const tookMs = performance.now() - startMs;
      if (name === "stalled reader") {
        stream.resume();
      }
      await ended;
      return tookMs;
    });
    const times = taken.filter((ms) => ms !== null);
    rows.push({
      cancel: name,
      cancelled: times.length,
      ...(times.length === 0 ? {} : { "p50 ms": round(median(times), 1), "max ms": round(Math.max(...times), 1) }),
      "target ms": 100,
    });
  }
  return rows;
}

async function benchMemory({ reader, pid, lake }: Bench): Promise<FigureRow[]> {
  const rows: FigureRow[] = [];
  for (const [name, columns] of [
    ["numbers and short texts", "time, level, target, service_name"],
    ["texts", "time, level, target, msg, properties"],
  ] as const) {
    const copies = Math.max(1, Math.ceil(100_000_000 / lake.rows));
    const one = `SELECT ${columns} FROM log_entries`;
    const sql = Array.from({ length: copies }, () => one).join(" UNION ALL ");
    await reader.read("SELECT 1");
    await sleep(3000);
    const idle = processMemory(pid).residentBytes;
    // 5 resets the peak (proc(5), clear_refs).
    await writeFile(`/proc/${pid}/clear_refs`, "5");
    const reading = await reader.read(sql);
    const { peakBytes } = processMemory(pid);
    rows.push({
      memory: name,
      "M rows": round((copies * lake.rows) / 1e6, 0),
      GB: round(reading.bytes / 1e9),
      seconds: round(reading.totalMs / 1000, 1),
      "idle MB": round(idle / 1e6, 0),
      "peak MB": round(peakBytes / 1e6, 0),
      "wanted at most": 250,
    });
  }
  return rows;
}

async function benchPrune({ reader, sql, lake, proxy }: Bench): Promise<FigureRow[]> {
  const wanted = 10_000;
  // Objects that are not there: a query that opened one of them would fail.
  const others = Array.from({ length: wanted - lake.objects.length }, (_, i) => {
    const at = lake.objects.length + i;
    const id = `00000000-0000-4000-8000-${at.toString(16).padStart(12, "0")}`;
    return {
      id,
      path: `log_entries/audience=public/none/${id}.parquet`,
      rows: 1,
      bytes: 1,
      minTimeNs: String(minuteOf(at) + 1_000_000n),
      maxTimeNs: String(minuteOf(at + 1) - 1_000_000n),
    };
  });
  await publishObjects(sql, "log_entries", others);
  await sql`analyze lakehouse_partitions`;
  const rounds = 50;
  const query = (i: number): string => `SELECT count(*) AS n FROM log_entries WHERE ${minutes(i, i + 1)}`;
  await reader.read(query(0));
  const before = proxy.statements();
  const times = await repeat(rounds, async (i) => {
    return (await reader.read(query(i % lake.objects.length))).totalMs;
  });
  const statements = (proxy.statements() - before) / rounds;
  await sleep(1500); // the query log is written in batches
  const [opened] = await sql<{ partitions: number }[]>`
    select max(partitions) as partitions from query_log where sql = ${query(1)}`;
  return [
    {
      "query.prune": `one minute of ${wanted} objects`,
      "objects opened": opened?.partitions ?? -1,
      "catalogue statements": statements,
      "p50 ms": round(median(times)),
    },
  ];
}

const runs: Readonly<Record<Section, (bench: Bench) => Promise<FigureRow[]>>> = {
  first: benchFirst,
  scan: benchScan,
  stream: benchStream,
  concurrent: benchConcurrent,
  cancel: benchCancel,
  memory: benchMemory,
  prune: benchPrune,
};

/** Directory of the Python programs with all that is compared; null, and a line that says why, without Python. */
async function openPython(root: string, peer: "none" | "sail"): Promise<string | null> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  const version = (await connection.runAndReadAll("SELECT ltrim(version(), 'v')")).getRows()[0]?.[0];
  connection.closeSync();
  instance.closeSync();
  try {
    const packages = ["pyarrow", `duckdb==${String(version)}`, ...(peer === "none" ? [] : ["pysail"])];
    return await pythonPrograms(root, packages);
  } catch (error) {
    const reason = (error instanceof Error ? error.message : String(error)).split("\n").slice(0, 3);
    console.log(`stream${peer === "none" ? "" : " and the peer"} left out: ${reason.join(" ")}`);
    return null;
  }
}

/** Of the tables of the sections, what is held against something. */
function figuresOf(results: Readonly<Record<string, readonly FigureRow[]>>): Figure[] {
  const of = (section: Section): readonly FigureRow[] => results[section] ?? [];
  const value = (row: FigureRow, column: string): number => Number(row[column]);
  return [
    ...of("first").map((row) => {
      const target = row["query.first"] === "text seen before" ? atMost(value(row, "target ms")) : undefined;
      return figure(`first batch of SELECT 1, ${row["query.first"]}`, "ms", value(row, "p50 ms"), target);
    }),
    ...of("scan").map((row) => {
      const limit = atMost(value(row, "wanted ms"), String(row["wanted"]));
      return figure(`scan, ${row["query.scan"]}`, "ms", value(row, "ms"), limit);
    }),
    ...of("stream").flatMap((row) => [
      figure(
        `stream of ${row["query.stream"]}`,
        "times",
        value(row, "times DuckDB"),
        atMost(1.3, "DuckDB's Arrow table"),
      ),
      figure(`stream of ${row["query.stream"]}, CPU`, "s/GB", value(row, "CPU s/GB"), atMost(3)),
      ...("speed of Sail's" in row
        ? [
            figure(
              `stream of ${row["query.stream"]}, speed`,
              "times",
              value(row, "speed of Sail's"),
              atLeast(0.6, "Sail's speed"),
            ),
          ]
        : []),
    ]),
    ...of("concurrent").map((row) =>
      figure(String(row["concurrent"]), "times", value(row, "p99 / single p50"), atMost(10, "one alone")),
    ),
    ...of("cancel").map((row) => {
      const id = `cancel a ${row["cancel"]}`;
      return row["cancelled"] === 0
        ? notMeasured(id, "ms", "each ended before it was cancelled", atMost(100))
        : figure(id, "ms", value(row, "p50 ms"), atMost(100));
    }),
    ...of("memory").map((row) =>
      figure(`peak memory, ${row["memory"]}`, "MB", value(row, "peak MB"), atMost(value(row, "wanted at most"))),
    ),
    ...of("prune").flatMap((row) => [
      figure(`objects opened, ${row["query.prune"]}`, "objects", value(row, "objects opened"), atMost(1)),
      figure(`catalogue statements, ${row["query.prune"]}`, "a query", value(row, "catalogue statements"), atMost(1)),
    ]),
  ];
}

/** Runs the bench; see the head of this file. */
export async function benchQuery(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    rows: count(50_000_000, "rows of the lake"),
    partitions: count(1000, "objects of the lake"),
    only: words(sections, sections.join(","), "what is measured"),
    directory: text(process.env["BENCH_KEEP_DIR"] ?? tmpdir(), "where the lake is kept"),
    peer: word(["none", "sail"], "none", "what runs beside scan and stream"),
    "node-options": text("", "of the server"),
    save: text(null, "name of the file under bench/results/ that keeps the result"),
  };
  const values = readOptions("query", "the analytics server over a generated lake", options, argv);
  const lake = await openQueryLake(values.directory, values.rows, values.partitions);
  const environment = describeEnvironment();
  console.log(
    `${environment.cpu}, ${environment.cores} cores, Node ${environment.node}, ${environment.commit}; ` +
      `${lake.rows} rows in ${lake.objects.length} objects, ${(lake.bytes / 1e9).toFixed(1)} GB`,
  );
  const logger = createSilentLogger();
  const dataDirectory = tmpdir();
  const postgres = await startEmbeddedPostgres({ dataDirectory, logger });
  const proxy = await startCatalogueProxy(postgres.connectionString);
  const sql = connect({
    connectionString: postgres.connectionString,
    maxConnections: 2,
    applicationName: "bench",
    logger,
  });
  let server: AnalyticsServer | null = null;
  let sail: Sail | null = null;
  try {
    const programs = await openPython(values.directory, values.peer);
    if (programs !== null && values.peer === "sail") {
      sail = await startSail(programs, lake.directory);
      console.log(`peer: ${sail.version}`);
    }
    await migrate(sql, logger);
    const { key } = await mintAnalyticsKey(sql, { name: "bench", createdBy: "bench" });
    await publishObjects(sql, "log_entries", lake.objects);
    server = await startAnalytics(
      {
        SVC_SQL_CONNECTION_STRING: proxy.connectionString,
        SVC_OBJECT_STORE_URI: pathToFileURL(lake.directory).href,
      },
      values["node-options"].split(" ").filter(Boolean),
    );
    const health = /http:\/\/127\.0\.0\.1:[1-9]\d*/u.exec(server.output())?.[0] ?? "";
    const reader = connectReader(server.address, key);
    const { pid, address } = server;
    const bench = {
      pid,
      address,
      programs,
      sail,
      healthUrl: health,
      key,
      reader,
      lake,
      sql,
      proxy,
    };
    const results: Record<string, FigureRow[]> = {};
    for (const section of sections) {
      if (!values.only.includes(section)) {
        continue;
      }
      const rows = await profiled(() => runs[section](bench));
      printTable(section, rows);
      results[section] = rows;
    }
    reader.close();
    if (values.save !== undefined) {
      saveResults(values.save, {
        environment,
        settings: { rows: lake.rows, partitions: lake.objects.length, bytes: lake.bytes },
        peer: sail?.version ?? null,
        results,
      });
    }
    const left = values.only.includes("stream") && programs === null;
    return [
      ...figuresOf(results),
      ...(left ? [notMeasured("stream", "times", "Python with pyarrow and DuckDB is not at hand")] : []),
    ];
  } finally {
    await server?.stop();
    await sail?.stop();
    await sql.end({ timeout: 5 });
    await proxy.stop();
    await postgres.stop();
  }
}
