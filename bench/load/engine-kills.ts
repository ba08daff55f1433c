/** Kills a server's child processes at random moments while results are read, and judges the results. */
import { setTimeout as sleep } from "node:timers/promises";

import { connect, FlightSqlError } from "telemetry-service-client";
import { staticKey } from "telemetry-service-client";
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

/** Queries whose results are known: rows, and their sum. */
const queries: readonly { readonly sql: string; readonly rows: number; readonly sum: bigint }[] = [
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
  const ask = async (number: number): Promise<void> => {
    for (let i = number; !isOver(); i++) {
      const { sql, rows, sum } = queries[i % queries.length] ?? { sql: "", rows: 0, sum: 0n };
      let foundRows = 0;
      let foundSum = 0n;
      try {
        const { batches } = await client.query(vary(sql));
        for await (const batch of batches) {
          foundRows += batch.numRows;
          const column = batch.getChildAt(0)?.toArray() as BigInt64Array | undefined;
          for (const value of column ?? []) {
            foundSum += value;
          }
        }
      } catch (error) {
        if (!(error instanceof FlightSqlError)) {
          throw error;
        }
        counts.failed++;
        continue;
      }
      if (foundRows === rows && foundSum === sum) {
        counts.whole++;
      } else {
        wrong.push(`${sql}: ${foundRows} rows with the sum ${foundSum}`);
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
    await Promise.all([kill(), ...Array.from({ length: atOnce }, (_, i) => ask(i))]);
  } finally {
    client.close();
  }
  return { ...counts, wrong };
}
