/**
 * Erasure: rows that meet a condition go from every object of an audience, at every level.
 *
 * **What it reaches**: all objects that are in the catalogue when it comes to their table, but those that were ingested
 * after the call; so every row that was acknowledged before it. Rows that arrive later are not erased, unless they are
 * merged with others before the erasure comes to their table; maintenance waits with that (../merge/merge-candidates.ts).
 * While it is at a table nobody merges it; objects that come from a merge all the same (a session was lost) are looked
 * through in another round.
 *
 * **Resumable.** What each object loses is counted in the transaction that replaces it. After a crash the task is still
 * running, and whoever leads next looks through everything again: what is erased is not found twice.
 *
 * **Objects that are missing or damaged** stop nothing: it goes on with all others, then fails and names them.
 *
 * **Processes.** Without bounds of time, rows of `processes` that meet the condition go as well, with their streams,
 * unless they have sent something since. Blocks stay: they hold ids and counts, and keep bytes that are sent again from
 * coming back.
 */
import type { Sql } from "../../db/sql.js";
import { BadObjects } from "../bad-objects.js";
import { databaseJson, databaseText } from "../database-text.js";
import { removeStreams } from "../retention/retire-blocks.js";
import { type TableName, tables } from "../tables/tables.js";
import { erasedRows, type ErasureFilter } from "./erasure-filter.js";
import { type RewriteContext, rewriteObjects, type RewriteSource } from "./rewrite.js";
import { engineFor, objectsPerStep, selectRewriteSources, withLockedTable, withRewriteEngine } from "./with-table.js";
import type { MergeProcess } from "../merge/merge-engine.js";

/** An erasure that was asked for. */
interface Erasure {
  readonly taskId: string;
  readonly filter: ErasureFilter;
  /** When it was asked for, in seconds since 1970. */
  readonly createdSeconds: number;
  /** Rows without an audience are read as this audience, and so erased with it. */
  readonly unstamped: boolean;
}

/** Erases. @throws as `rewriteObjects`: BadObjects at the end, the others at once; objects that were replaced before stay so */
export async function erase(context: RewriteContext, erasure: Erasure): Promise<void> {
  const { filter, unstamped } = erasure;
  const bad: string[] = [];
  await withRewriteEngine(context, async (process) => {
    for (const viewSet of Object.keys(tables) as TableName[]) {
      await withLockedTable(context, viewSet, async (connection) => {
        for (const audience of unstamped ? [filter.audience, null] : [filter.audience]) {
          bad.push(...(await eraseFrom(context, connection, process, erasure, viewSet, audience)));
        }
      });
    }
  });
  if (filter.beginNs === null && filter.endNs === null) {
    await eraseProcesses(context.sql, erasure);
  }
  if (bad.length > 0) {
    throw new BadObjects(bad, { afterwards: "Everything else is erased; ask for the erasure once more then." });
  }
}

/** @returns the paths of objects that are missing or damaged, and stay as they are */
async function eraseFrom(
  context: RewriteContext,
  connection: Sql,
  process: MergeProcess,
  { taskId, filter, createdSeconds }: Erasure,
  viewSet: TableName,
  audience: string | null,
): Promise<readonly string[]> {
  const condition = erasedRows(viewSet, [filter]);
  if (condition === null) {
    return [];
  }
  const { beginNs, endNs } = filter;
  const processId = filter.condition.kind === "process" ? filter.condition.processId : null;
  const engine = engineFor(context, process, viewSet, audience);
  const query = { viewSet, audience, beginNs, endNs, processId, ingestedBefore: createdSeconds };
  const seen = new Set<string>();
  const bad: string[] = [];
  for (;;) {
    const found = await selectRewriteSources(connection, query);
    const sources = found.filter(({ partitionId }) => !seen.has(partitionId));
    if (sources.length === 0) {
      return bad;
    }
    for (let from = 0; from < sources.length; from += objectsPerStep) {
      const step = sources.slice(from, from + objectsPerStep);
      let isDone: (source: RewriteSource) => boolean;
      try {
        const gone = await rewriteObjects(context, connection, engine, {
          viewSet,
          audience,
          sources: step,
          condition,
          also: async (transaction, { rowsRemoved, rewritten }) => {
            await transaction`
              update lake_tasks set rows_removed = rows_removed + ${rowsRemoved},
                objects_rewritten = objects_rewritten + ${rewritten ? 1 : 0},
                objects_removed = objects_removed + ${rewritten ? 0 : 1}
              where task_id = ${taskId}`;
          },
        });
        // A replacement may lose against another transaction, which may have left the object.
        isDone = ({ partitionId }) => !gone.includes(partitionId);
      } catch (error) {
        if (!(error instanceof BadObjects)) {
          throw error;
        }
        const { paths } = error;
        bad.push(...paths);
        // The others of this step come again, without these.
        isDone = ({ path }) => paths.includes(path);
      }
      for (const source of step) {
        if (isDone(source)) {
          seen.add(source.partitionId);
        }
      }
    }
  }
}

/** An attribute's text as JSON, where it is a number, a list or a map: `jsonb` spells these in a way of its own. */
async function spelledJson(sql: Sql, value: string): Promise<string | null> {
  const json = databaseJson(value);
  const [read] = await sql<{ valid: boolean }[]>`select pg_input_is_valid(${json}::text, 'jsonb') as valid`;
  return read?.valid === true && /^\s*[-\d[{]/u.test(json) ? json : null;
}

function hasAttribute(sql: Sql, { key, value }: { readonly key: string; readonly value: string }, json: string | null) {
  const name = databaseText(key);
  return sql`(p.properties ->> ${name}::text = ${databaseText(value)}::text
    or p.properties -> ${name}::text = ${json}::text::jsonb)`;
}

const processesPerStep = 1000;

async function eraseProcesses(sql: Sql, { filter, unstamped, createdSeconds }: Erasure): Promise<void> {
  const { condition, audience } = filter;
  if (condition.kind === "trace") {
    return;
  }
  const matches =
    condition.kind === "service"
      ? sql`service_name = ${databaseText(condition.name)}`
      : condition.kind === "process"
        ? sql`p.process_id = ${condition.processId}::uuid`
        : hasAttribute(sql, condition, await spelledJson(sql, condition.value));
  const found = await sql<{ streamId: string }[]>`
    select s.stream_id as "streamId" from processes p join streams s using (process_id)
    where (p.audience = ${audience} ${unstamped ? sql`or p.audience is null` : sql``}) and ${matches}`;
  for (let from = 0; from < found.length; from += processesPerStep) {
    const step = found.slice(from, from + processesPerStep).map(({ streamId }) => streamId);
    await removeStreams(sql, step, createdSeconds);
  }
}
