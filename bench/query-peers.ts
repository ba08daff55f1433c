/**
 * The parts of `pnpm bench query` that have something beside them: streaming against DuckDB in a process of its
 * own and against Sail, and scans against bare DuckDB and Sail. All read the same objects, in turns, so that
 * neighbours of the machine slow every one of them.
 */
import { link, mkdir, rm } from "node:fs/promises";
import path from "node:path";

import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";

import { type FigureRow, median, medianRatio, round } from "./figures.js";
import { type ArrowClient, startArrowClient, type TableReading } from "./load/arrow-client.js";
import type { FlightReader } from "./load/flight-reader.js";
import { minuteOf, type QueryLake } from "./load/query-lake.js";
import type { Sail } from "./load/sail.js";
import { treeCpuSeconds } from "./run/machine.js";

/** What is compared. */
export interface Compared {
  /** Of our server, with its children. */
  readonly pid: number;
  readonly address: string;
  readonly key: string;
  readonly reader: FlightReader;
  readonly lake: QueryLake;
  /** Where the programs of Python are; null when it is not at hand. */
  readonly programs: string | null;
  /** Null when it is not asked for, or not at hand. */
  readonly sail: Sail | null;
}

const timeText = (ns: bigint): string => `make_timestamp_ns(${ns})`;

/** The condition for the minutes of some objects. */
export const minutes = (from: number, to: number): string =>
  `time >= ${timeText(minuteOf(from))} AND time < ${timeText(minuteOf(to))}`;

const streams: readonly { readonly name: string; readonly rows: number; readonly sql: string }[] = [
  {
    name: "4 numbers",
    rows: 5_000_000,
    sql: "SELECT time, event_time, level, severity_number FROM log_entries",
  },
  {
    name: "texts",
    rows: 2_000_000,
    sql: "SELECT time, level, target, msg, properties, trace_id, span_id, service_name FROM log_entries",
  },
];
const streamRounds = 11;

/** Results as Arrow tables in a process of pyarrow: ours, DuckDB's own, and Sail's. */
export async function benchStream(compared: Compared): Promise<FigureRow[]> {
  const { pid, address, key, lake, programs, sail } = compared;
  if (programs === null) {
    return [];
  }
  const uri = `grpc://${address}`;
  const flights = startArrowClient(programs);
  const duckdb = startArrowClient(programs);
  const rows: FigureRow[] = [];
  try {
    for (const { name, rows: wanted, sql } of streams) {
      const objects = Math.min(lake.objects.length, Math.ceil(wanted / (lake.objects[0]?.rows ?? 1)));
      const ours = objects === lake.objects.length ? sql : `${sql} WHERE ${minutes(0, objects)}`;
      const files = filesOf(lake, 0, objects);
      const peer = sail === null ? null : await peerQuery(lake, objects, flights, sail);
      const taken: TableReading[] = [];
      const own: TableReading[] = [];
      const peers: TableReading[] = [];
      try {
        for (let i = 0; i <= streamRounds; i++) {
          taken.push(await withCpuOf(pid, () => flights.flight(uri, key, ours)));
          own.push(await duckdb.duckdb(files, ours));
          if (peer !== null && sail !== null) {
            peers.push(await withCpuOf(sail.pid, () => peer.run(sql)));
          }
        }
        rows.push(streamRow(name, taken.slice(1), own.slice(1), peers.slice(1)));
      } finally {
        await peer?.stop();
      }
    }
  } finally {
    flights.stop();
    duckdb.stop();
  }
  return rows;
}

/** A reading with the CPU of the server that sent it in place of the client's. */
async function withCpuOf(pid: number, read: () => Promise<TableReading>): Promise<TableReading> {
  const before = treeCpuSeconds(pid);
  const taken = await read();
  return { ...taken, cpu: treeCpuSeconds(pid) - before };
}

/** The first of each, when the files come from the disk, has been left out. */
function streamRow(
  name: string,
  ours: readonly TableReading[],
  duckdb: readonly TableReading[],
  peer: readonly TableReading[],
): FigureRow {
  const seconds = (of: readonly TableReading[]): number[] => of.map((taken) => taken.seconds);
  const cpu = (of: readonly TableReading[]): number =>
    round(median(of.map((taken) => (taken.cpu * 1e9) / taken.bytes)));
  return {
    "query.stream": name,
    "M rows": round((ours[0]?.rows ?? 0) / 1e6, 1),
    MB: round((ours[0]?.bytes ?? 0) / 1e6, 0),
    s: round(median(seconds(ours)), 3),
    "CPU s/GB": cpu(ours),
    "wanted CPU s/GB": 3,
    "DuckDB s": round(median(seconds(duckdb)), 3),
    "DuckDB CPU s/GB": cpu(duckdb),
    "times DuckDB": round(medianRatio(seconds(ours), seconds(duckdb))),
    "wanted at most": 1.3,
    ...(peer.length === 0
      ? {}
      : {
          "Sail s": round(median(seconds(peer)), 3),
          "Sail CPU s/GB": cpu(peer),
          "speed of Sail's": round(medianRatio(seconds(peer), seconds(ours))),
          "wanted at least": 0.6,
        }),
  };
}

interface Scan {
  readonly name: string;
  readonly sql: string;
  /** In the words of bare DuckDB and of Sail, where they differ. */
  readonly duckdb?: string;
  readonly sail?: string;
}

const scans: readonly Scan[] = [
  {
    name: "count by level and target",
    sql: "SELECT level, target, count(*) AS n FROM log_entries GROUP BY level, target ORDER BY level, target",
  },
  {
    name: "search in texts",
    sql: "SELECT level, count(*) AS n, max(length(msg)) AS m FROM log_entries WHERE msg LIKE '%7 ms%' GROUP BY level ORDER BY level",
  },
  {
    name: "group by attribute",
    sql: "SELECT property_get(properties, 'http.route') AS route, count(*) AS n FROM log_entries GROUP BY 1 ORDER BY 1",
    duckdb:
      "SELECT json_extract_string(properties, '/http.route') AS route, count(*) AS n FROM log_entries GROUP BY 1 ORDER BY 1",
    sail: `SELECT get_json_object(properties, "$['http.route']") AS route, count(*) AS n FROM log_entries GROUP BY 1 ORDER BY 1`,
  },
];
/**
 * Rounds that do not count: the first reads the files from the disk; and of short queries V8 compiles what has run a
 * while, as it has in a server that is up. Those that count take so long together, and are so many at least and at most.
 */
const roundsBefore = { whole: 1, few: 20 } as const;
const scanSeconds = 15;
const scanRounds = { least: 5, most: 30 } as const;
const fewRows = 1_000_000;

/**
 * Aggregations through the server, in bare DuckDB with as many threads, and in Sail. Both servers are asked by pyarrow;
 * without Python, ours by a client in JavaScript, which takes 2 ms more of the same cores.
 */
export async function benchScan({ reader, address, key, lake, programs, sail }: Compared): Promise<FigureRow[]> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  await connection.run("SET GLOBAL parquet_metadata_cache = true");
  const flights = programs === null ? null : startArrowClient(programs);
  const rows: FigureRow[] = [];
  try {
    const few = Math.ceil(fewRows / (lake.objects[0]?.rows ?? 1));
    for (const objects of few < lake.objects.length ? [lake.objects.length, few] : [lake.objects.length]) {
      await viewOf(connection, lake, objects);
      const peer = sail === null || flights === null ? null : await peerQuery(lake, objects, flights, sail);
      const ask = async (sql: string): Promise<number> =>
        flights === null
          ? (await reader.read(sql)).totalMs
          : (await flights.flight(`grpc://${address}`, key, sql)).seconds * 1000;
      try {
        for (const scan of scans) {
          rows.push(await compareScan(scan, objects, { ask, lake, connection, peer }));
        }
      } finally {
        await peer?.stop();
      }
    }
  } finally {
    flights?.stop();
    connection.closeSync();
    instance.closeSync();
  }
  return rows;
}

async function compareScan(
  scan: Scan,
  objects: number,
  {
    ask,
    lake,
    connection,
    peer,
  }: {
    /** Asks our server. @returns how long that took in milliseconds */
    readonly ask: (sql: string) => Promise<number>;
    readonly lake: QueryLake;
    readonly connection: DuckDBConnection;
    readonly peer: PeerQuery | null;
  },
): Promise<FigureRow> {
  const whole = objects === lake.objects.length;
  const narrowed = (sql: string): string => (whole ? sql : within(sql, minutes(0, objects)));
  const ours = narrowed(scan.sql);
  const bare = narrowed(scan.duckdb ?? scan.sql);
  const times: { ours: number[]; bare: number[]; peer: number[] } = {
    ours: [],
    bare: [],
    peer: [],
  };
  const before = roundsBefore[whole ? "whole" : "few"];
  let beganMs = performance.now();
  const isEnough = (counted: number): boolean =>
    counted >= scanRounds.most || (counted >= scanRounds.least && performance.now() - beganMs >= scanSeconds * 1000);
  for (let i = 0; !isEnough(i - before); i++) {
    if (i === before) {
      beganMs = performance.now();
    }
    const startMs = performance.now();
    await (await connection.run(bare)).getRowsJson();
    times.bare.push(performance.now() - startMs);
    times.ours.push(await ask(ours));
    if (peer !== null) {
      times.peer.push((await peer.run(scan.sail ?? scan.sql)).seconds * 1000);
    }
  }
  for (const list of Object.values(times)) {
    list.splice(0, before);
  }
  return {
    "query.scan": whole ? scan.name : `${scan.name}, 1 million rows`,
    ms: round(median(times.ours), 1),
    "bare DuckDB ms": round(median(times.bare), 1),
    "wanted ms": round(whole ? median(times.bare) * 1.05 : median(times.bare) * 1.1 + 5, 1),
    wanted: whole ? "1.05 times bare DuckDB" : "1.1 times bare DuckDB + 5 ms",
    ratio: round(medianRatio(times.ours, times.bare)),
    ...(peer === null
      ? {}
      : {
          "Sail ms": round(median(times.peer), 1),
          "speed of Sail's": round(medianRatio(times.peer, times.ours)),
        }),
  };
}

function within(sql: string, condition: string): string {
  return sql.includes("WHERE")
    ? sql.replace("WHERE", `WHERE ${condition} AND`)
    : sql.replace("FROM log_entries", `FROM log_entries WHERE ${condition}`);
}

function filesOf(lake: QueryLake, from: number, to: number): string[] {
  return lake.objects.slice(from, to).map((object) => path.join(lake.directory, object.path));
}

async function viewOf(connection: DuckDBConnection, lake: QueryLake, objects: number): Promise<void> {
  const files = filesOf(lake, 0, objects).map((file) => `'${file}'`);
  await connection.run(
    `CREATE OR REPLACE VIEW log_entries AS SELECT * FROM read_parquet([${files.join(",")}], hive_partitioning = false)`,
  );
}

interface PeerQuery {
  run(sql: string): Promise<TableReading>;
  stop(): Promise<void>;
}

/** Sail reads directories: the first objects get other names in one of their own. */
async function peerQuery(lake: QueryLake, objects: number, client: ArrowClient, sail: Sail): Promise<PeerQuery> {
  const directory = path.join(lake.directory, `peer-${objects}`);
  await mkdir(directory, { recursive: true });
  for (const file of filesOf(lake, 0, objects)) {
    await link(file, path.join(directory, path.basename(file))).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
        throw error;
      }
    });
  }
  return {
    run: (sql) => client.flight(sail.uri, null, sql.replace("FROM log_entries", `FROM parquet.\`${directory}\``)),
    stop: () => rm(directory, { recursive: true, force: true }),
  };
}
