/** Kills a server's child processes at random moments while results are read, and judges the results. */
import { setTimeout as sleep } from "node:timers/promises";

import { connect, type FlightSqlClient, FlightSqlError, staticKey } from "telemetry-service-client";
import { childrenOf, signal } from "../../test/helpers/processes.js";
import { vary } from "./attacks.js";

/** What became of the queries. */
interface KillReport {
  readonly kills: number;
  /** Whole and right. */
  readonly whole: number;
  /** Failed, and said so. */
  readonly failed: number;
  /** Ended well with other rows than theirs, one sentence each. There must be none. */
  readonly wrong: readonly string[];
}

/** A query whose result is known: how many rows, and the sum of their first column. */
interface KnownQuery {
  /** In another shape each time: one that has ended engines before is refused, whatever its constants are. */
  readonly sql: () => string;
  readonly rows: number;
  readonly sum: bigint;
}

const computed: readonly (Omit<KnownQuery, "sql"> & { readonly sql: string })[] = [
  { sql: "SELECT 7::BIGINT AS v", rows: 1, sum: 7n },
  {
    sql: "SELECT count(*)::BIGINT AS v FROM range(3000000) t(i) WHERE i % 3 = 0",
    rows: 1,
    sum: 1_000_000n,
  },
  ...[100_000, 3_000_000].map((rows) => ({
    sql: `SELECT i AS v, 'row ' || i AS text FROM range(${rows}) t(i)`,
    rows,
    sum: (BigInt(rows) * BigInt(rows - 1)) / 2n,
  })),
];

/** Rows of the lake, which are taken in place, and a sum over them: what the caller reads is not to change meanwhile. */
async function lakeQueries(client: FlightSqlClient): Promise<KnownQuery[]> {
  let shapes = 0;
  const known: KnownQuery = {
    sql: () => `SELECT event_time AS shape_${shapes++}, * FROM log_entries`,
    rows: 0,
    sum: 0n,
  };
  const whole = await read(client, known.sql());
  return [
    { ...known, ...whole },
    { sql: () => vary("SELECT count(*)::BIGINT AS v FROM log_entries"), rows: 1, sum: BigInt(whole.rows) },
  ];
}

async function read(client: FlightSqlClient, sql: string): Promise<Pick<KnownQuery, "rows" | "sum">> {
  const found = { rows: 0, sum: 0n };
  const { batches } = await client.query(sql);
  for await (const batch of batches) {
    found.rows += batch.numRows;
    const column = batch.getChildAt(0)?.toArray() as BigInt64Array | undefined;
    for (const value of column ?? []) {
      found.sum += value;
    }
  }
  return found;
}

const mostMoreMs = 60_000;

/** Runs queries, some at once, for so long, or longer until some were killed and some were not, and kills one of the engines every now and then. */
export async function killEngines(o: {
  readonly uri: string;
  readonly key: string;
  readonly serverPid: number;
  readonly forMs: number;
  readonly atOnce: number;
}): Promise<KillReport> {
  const { uri, key, serverPid, forMs, atOnce } = o;
  const endMs = performance.now() + forMs;
  const counts = { kills: 0, whole: 0, failed: 0 };
  // A busy machine may need longer for an engine than engines live.
  const isOver = (): boolean =>
    performance.now() >= (counts.kills > 0 && counts.whole > 0 ? endMs : endMs + mostMoreMs);
  const wrong: string[] = [];
  const client = connect({ uri, auth: staticKey(key) });
  const ask = async (queries: readonly KnownQuery[], number: number): Promise<void> => {
    for (let i = number; !isOver(); i++) {
      const query = queries[i % queries.length];
      if (query === undefined) {
        throw new Error("no queries");
      }
      const sql = query.sql();
      let found;
      try {
        found = await read(client, sql);
      } catch (error) {
        if (!(error instanceof FlightSqlError)) {
          throw error;
        }
        counts.failed++;
        continue;
      }
      if (found.rows === query.rows && found.sum === query.sum) {
        counts.whole++;
      } else {
        wrong.push(`${sql}: ${found.rows} rows with the sum ${found.sum}`);
      }
    }
  };
  const kill = async (): Promise<void> => {
    while (!isOver()) {
      await sleep(50 + Math.random() * 400);
      const engines = childrenOf(serverPid, "engine-process");
      const victim = engines[Math.floor(Math.random() * engines.length)];
      if (victim === undefined) {
        continue;
      }
      counts.kills += signal(victim, "SIGKILL") ? 1 : 0;
    }
  };
  try {
    const queries = [
      ...computed.map((query) => ({ ...query, sql: () => vary(query.sql) })),
      ...(await lakeQueries(client)),
    ];
    await Promise.all([kill(), ...Array.from({ length: atOnce }, (_, i) => ask(queries, i))]);
  } finally {
    client.close();
  }
  return { ...counts, wrong };
}
