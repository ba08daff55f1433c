/**
 * Trimming: rows whose retention is over leave objects that others keep alive. An object is rewritten when its oldest
 * row has overstayed by a quarter of the retention, at least by a day; so a row is rewritten a few times at most. Rows
 * that say they were received before any row of their object was have their time of a clock that was behind, as merging
 * left it in earlier versions, and stay as long as the object.
 */
import { BadObjects } from "../bad-objects.js";
import { publish } from "../merge/merge-publish.js";
import type { RowCondition } from "../merge/merge-sql.js";
import { type TableName, tables } from "../tables/tables.js";
import { selectGroups } from "../retention/retention.js";
import { daysKept, type RetentionPolicy } from "../retention/retention-policy.js";
import { type RewriteContext, rewriteObjects, type RewriteOrder } from "./rewrite.js";
import { engineFor, objectsPerStep, selectRewriteSources, withLockedTable, withRewriteEngine } from "./with-table.js";

const daySeconds = 86_400;

/** What a trim took. */
export interface TrimResult {
  readonly objects: number;
  readonly rows: number;
  /** Paths of objects that are missing or damaged, and stay as they are. */
  readonly bad: readonly string[];
}

/** Days by which a row may outstay its retention in an object with younger ones. */
function overstayDays(days: number): number {
  return Math.max(1, days / 4);
}

/** Rewrites what has overstayed and can be read. @throws as `rewriteObjects`, but BadObjects */
export async function trim(context: RewriteContext, policy: RetentionPolicy): Promise<TrimResult> {
  const { sql } = context;
  const [clock] = await sql<{ seconds: number }[]>`select extract(epoch from now())::float8 as seconds`;
  const nowSeconds = clock?.seconds ?? 0;
  const trimmed = { objects: 0, rows: 0, bad: new Array<string>() };
  const due = (await selectGroups(sql)).flatMap(({ viewSet, audience, oldestSeconds }) => {
    const days = daysKept(policy, viewSet, audience);
    const table = (Object.keys(tables) as TableName[]).find((known) => known === viewSet);
    return days !== null && table !== undefined && oldestSeconds < nowSeconds - (days + overstayDays(days)) * daySeconds
      ? [{ viewSet: table, audience, days }]
      : [];
  });
  if (due.length === 0) {
    return trimmed;
  }
  await withRewriteEngine(context, async (process) => {
    for (const { viewSet, audience, days } of due) {
      const pastSeconds = Math.floor(nowSeconds - days * daySeconds);
      const receivedBefore = pastSeconds - overstayDays(days) * daySeconds;
      const engine = engineFor(context, process, viewSet, audience);
      await withLockedTable(context, viewSet, async (connection) => {
        // So many of those that can be read: the others must not keep them waiting.
        for (let after: string | undefined, left = objectsPerStep; left > 0;) {
          const query = { viewSet, audience, receivedBefore, after, limit: objectsPerStep };
          const sources = await selectRewriteSources(connection, query);
          for (const source of sources) {
            const before = trimmed.objects;
            const order: RewriteOrder = {
              viewSet,
              audience,
              sources: [source],
              condition: receivedBetween(source.receivedFromSeconds, pastSeconds),
              receivedSince: pastSeconds,
              also: (_, { rowsRemoved }) => {
                trimmed.objects++;
                trimmed.rows += rowsRemoved;
                return Promise.resolve();
              },
            };
            const gone = await readable(rewriteObjects(context, connection, engine, order));
            left -= gone === null ? 0 : 1;
            if (gone === null) {
              trimmed.bad.push(source.path);
            } else if (gone.length === 0 && trimmed.objects === before) {
              // Else it would be looked through again each time.
              await publish(connection, { viewSet }, async () => {
                await connection`update lakehouse_partitions set min_insert_time = to_timestamp(${pastSeconds}::float8)
                  where partition_id = ${source.partitionId} and min_insert_time < to_timestamp(${pastSeconds}::float8)`;
                return true;
              });
            }
          }
          if (sources.length < objectsPerStep) {
            break;
          }
          after = sources.at(-1)?.partitionId;
        }
      });
    }
  });
  return trimmed;
}

/** Null for a rewrite of what is missing or damaged. */
async function readable<T>(rewrite: Promise<T>): Promise<T | null> {
  try {
    return await rewrite;
  } catch (error) {
    if (error instanceof BadObjects) {
      return null;
    }
    throw error;
  }
}

/** Rows received in a range of time, `endSeconds` excluded. */
function receivedBetween(beginSeconds: number, endSeconds: number): RowCondition {
  const ns = (seconds: number) => ({
    type: "BIGINT" as const,
    text: String(BigInt(Math.floor(seconds)) * 1_000_000_000n),
  });
  return {
    sql: "insert_time BETWEEN make_timestamp_ns($1) AND make_timestamp_ns($2 - 1)",
    values: [ns(beginSeconds), ns(endSeconds)],
  };
}
