/**
 * `pnpm bench cluster [--rows 50000000] [--partitions 1000] [--rounds 5] [--engine sail|spark] [--save]`
 *
 * The analytics server as a user runs it, with a cluster on the same machine, over the lake of `pnpm bench query`. What it
 * adds to the cluster: group by, text search and streams through the server, against the very plans that the server
 * sends, sent to the cluster by a client that does nothing else. Both in turns, results counted and dropped. And how long
 * it takes from a request until the cluster is asked: inspection, planning and translation.
 *
 * Sail comes from PyPI and runs as `local-cluster`, Spark as `local[*]`; without Python there is nothing to measure.
 */
import { tmpdir } from "node:os";
import { pathToFileURL } from "node:url";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { ClusterClient } from "../../src/query/cluster/cluster-client.js";
import { parseClusterUri } from "../../src/query/cluster/cluster-uri.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { findSail, startSail } from "../../test/helpers/query/sail.js";
import { findSpark, startSpark } from "../../test/helpers/query/spark.js";
import {
  atMost,
  CannotMeasure,
  type Figure,
  figure,
  type FigureRow,
  type Limit,
  median,
  medianRatio,
  noLimit,
  quantile,
  repeat,
  round,
} from "../figures.js";
import { type AnalyticsServer, startAnalytics } from "../load/analytics-server.js";
import { connectReader, type FlightReader } from "../load/flight-reader.js";
import { type ClusterRecorder, type RecordedQuery, startClusterRecorder } from "./cluster-recorder.js";
import { minuteOf, openQueryLake, publishObjects, type QueryLake } from "../load/query-lake.js";
import { profiled } from "../profile/attach.js";
import { startBenchDatabase } from "../run/database.js";
import { describeEnvironment } from "../run/machine.js";
import { count, flag, readOptions, text, word } from "../run/options.js";
import { saveResults } from "../run/results.js";
import { printTable } from "../run/table.js";

/** Of the lake that the targets are for. */
const fullRows = 50_000_000;
const fullObjects = 1000;
const onCluster = { "query-engine": "cluster" } as const;

interface Statement {
  readonly name: string;
  readonly sql: string;
  /** Rows of the lake that it is asked of, in whole objects; null: all. */
  readonly rows: number | null;
  /** What it may take, times what the cluster takes. */
  readonly most: number;
}

const statements: readonly Statement[] = [
  {
    name: "group by level and target",
    sql: "SELECT level, target, count(*) AS n FROM log_entries GROUP BY level, target ORDER BY level, target",
    rows: null,
    most: 1.15,
  },
  {
    name: "search in texts",
    sql: "SELECT level, count(*) AS n, max(length(msg)) AS m FROM log_entries WHERE msg LIKE '%7 ms%' GROUP BY level ORDER BY level",
    rows: null,
    most: 1.15,
  },
  {
    name: "stream of 4 numbers",
    sql: "SELECT time, event_time, level, severity_number FROM log_entries",
    rows: 5_000_000,
    most: 1.3,
  },
  {
    name: "stream of texts",
    sql: "SELECT time, level, target, msg, properties, trace_id, span_id, service_name FROM log_entries",
    rows: 2_000_000,
    most: 1.3,
  },
];

/** The statement over as many objects as it takes. */
function narrowed({ sql, rows }: Statement, lake: QueryLake): string {
  const objects = rows === null ? Infinity : Math.ceil(rows / (lake.objects[0]?.rows ?? 1));
  if (objects >= lake.objects.length) {
    return sql;
  }
  return `${sql} WHERE time >= make_timestamp_ns(${minuteOf(0)}) AND time < make_timestamp_ns(${minuteOf(objects)})`;
}

/** What the server sends for a statement, and when the first of it comes. */
async function recorded(recorder: ClusterRecorder, reader: FlightReader, sql: string): Promise<RecordedQuery> {
  const query = recorder.next();
  const startMs = performance.now();
  const stream = await reader.open(sql, onCluster);
  stream.on("error", () => undefined);
  stream.resume();
  return query.then((plans) => ({ ...plans, firstMs: plans.firstMs - startMs }));
}

/** Milliseconds that a cluster takes for plans, in a session of their own. */
async function direct(client: ClusterClient, { settings, plans }: RecordedQuery): Promise<number> {
  const never = new AbortController().signal;
  const startMs = performance.now();
  const session = client.open();
  try {
    if (settings !== null) {
      await session.configure(settings, never);
    }
    for (const plan of plans) {
      for await (const _ of session.execute(plan, never)) {
        // Counted by nobody.
      }
    }
    return performance.now() - startMs;
  } finally {
    await session.release();
  }
}

async function through(reader: FlightReader, sql: string): Promise<number> {
  const startMs = performance.now();
  for await (const _ of await reader.open(sql, onCluster)) {
    // Counted by nobody.
  }
  return performance.now() - startMs;
}

async function compare(
  statement: Statement,
  o: {
    readonly lake: QueryLake;
    readonly reader: FlightReader;
    readonly client: ClusterClient;
    readonly query: RecordedQuery;
    readonly rounds: number;
  },
): Promise<FigureRow> {
  const sql = narrowed(statement, o.lake);
  const [ours, theirs]: [number[], number[]] = [[], []];
  for (let i = 0; i <= o.rounds; i++) {
    // The first round reads the files from the disk.
    const taken = [await through(o.reader, sql), await direct(o.client, o.query)] as const;
    if (i > 0) {
      ours.push(taken[0]);
      theirs.push(taken[1]);
    }
  }
  return {
    cluster: statement.name,
    "through us ms": round(median(ours), 0),
    "cluster ms": round(median(theirs), 0),
    times: round(medianRatio(ours, theirs), 3),
    "wanted at most": statement.most,
  };
}

/** Runs the bench; see the head of this file. */
export async function benchCluster(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    rows: count(fullRows, "rows of the lake"),
    partitions: count(fullObjects, "objects of the lake"),
    rounds: count(5, "times that each is asked, after once"),
    engine: word(["sail", "spark"], "sail", "what the cluster is"),
    directory: text(process.env["BENCH_KEEP_DIR"] ?? tmpdir(), "where the lake is kept"),
    save: flag("keeps the result under bench/results/"),
  };
  const values = readOptions("cluster", "what the server adds to a cluster's time", options, argv);
  const found = values.engine === "sail" ? await findSail() : await findSpark();
  if (found === null) {
    throw new CannotMeasure(`${values.engine} is not at hand`);
  }
  const lake = await openQueryLake(values.directory, values.rows, values.partitions);
  const environment = describeEnvironment();
  const logger = createSilentLogger();
  const dataDirectory = tmpdir();
  const database = await startBenchDatabase({ dataDirectory, maxConnections: 2, logger });
  const { connectionString, sql } = database;
  const stops: (() => Promise<void> | void)[] = [];
  try {
    const { key } = await mintAnalyticsKey(sql, { name: "bench", createdBy: "bench" });
    await publishObjects(sql, "log_entries", lake.objects);
    const serve = async (uri: string): Promise<{ server: AnalyticsServer; reader: FlightReader }> => {
      const server = await startAnalytics({
        SVC_SQL_CONNECTION_STRING: connectionString,
        SVC_OBJECT_STORE_URI: pathToFileURL(lake.directory).href,
        SVC_QUERY_CLUSTER_URI: uri,
        SVC_QUERY_TIMEOUT_SECONDS: "600",
      });
      stops.push(() => server.stop());
      const reader = connectReader(server.address, key);
      stops.push(() => {
        reader.close();
      });
      return { server, reader };
    };
    const recorder = await startClusterRecorder(values.engine);
    stops.push(() => recorder.stop());
    const asked = await serve(recorder.uri);
    const queries = new Map<string, RecordedQuery>();
    for (const statement of statements) {
      queries.set(statement.name, await recorded(recorder, asked.reader, narrowed(statement, lake)));
    }
    const [first] = statements;
    const planned = await profiled(() =>
      repeat(50, async () => (await recorded(recorder, asked.reader, first?.sql ?? "")).firstMs),
    );
    await asked.server.stop();
    const cluster = await (values.engine === "sail"
      ? startSail(found, "local-cluster")
      : startSpark(found, "local[*]"));
    stops.push(() => cluster.stop());
    const { reader } = await serve(cluster.uri);
    const client = new ClusterClient(parseClusterUri(cluster.uri));
    stops.push(() => {
      client.close();
    });
    const rows: FigureRow[] = [];
    for (const statement of statements) {
      const query = queries.get(statement.name);
      if (query !== undefined) {
        rows.push(await profiled(() => compare(statement, { lake, reader, client, query, rounds: values.rounds })));
      }
    }
    const planning: FigureRow = {
      planning: `${lake.objects.length} objects`,
      "p50 ms": round(median(planned), 1),
      "p95 ms": round(quantile(planned, 0.95), 1),
      "wanted at most": 20,
    };
    printTable("cluster", rows);
    printTable("planning", [planning]);
    if (values.save) {
      saveResults(values.engine === "sail" ? "cluster" : `cluster-${values.engine}`, {
        environment,
        settings: { rows: lake.rows, partitions: lake.objects.length, bytes: lake.bytes, engine: values.engine },
        cluster: rows,
        planning,
      });
    }
    const limit = (of: Limit, whole: boolean): Limit =>
      whole ? of : noLimit("the target is for 50 million rows in 1,000 objects");
    const isFull = lake.rows >= fullRows;
    return [
      ...rows.map((row) => {
        const most = atMost(Number(row["wanted at most"]), "the cluster alone");
        return figure(String(row["cluster"]), "times", Number(row["times"]), limit(most, isFull));
      }),
      figure(
        `until the cluster is asked, ${lake.objects.length} objects`,
        "ms",
        median(planned),
        limit(atMost(20), lake.objects.length >= fullObjects),
      ),
    ];
  } finally {
    for (const stop of stops.toReversed()) {
      await stop();
    }
    await database.stop();
  }
}
