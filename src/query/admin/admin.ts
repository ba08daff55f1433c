/** Runs the admin functions. Whoever gets here has passed the gate as an admin. */
import type { Sql } from "../../db/sql.js";
import type { AudienceFilter } from "../../lake/catalogue.js";
import type { MergedPartition, MergeRequest } from "../../lake/merge/merge.js";
import { type RetiredPartition, retirePartitions } from "../../lake/retire.js";
import { tables, type TableName } from "../../lake/tables/tables.js";
import { ServiceError } from "../../runtime/errors.js";
import { isUuid } from "../../runtime/text/uuid.js";
import type { AdminArgument, AdminCall } from "../sql/admin-functions.js";
import type { DenialRule, DenialRules } from "./denials.js";
import { type JsonField, jsonObject, nanosOf } from "../sql/json-rows.js";

/** Merges partitions somewhere else than on this thread; see `mergePartitions` in src/lake/merge/merge.ts. */
export interface PartitionMerger {
  merge(request: MergeRequest, signal: AbortSignal): Promise<readonly MergedPartition[]>;
}

/** What the functions need. */
export interface AdminContext {
  readonly sql: Sql;
  readonly denials: DenialRules;
  readonly merger: PartitionMerger;
  /** Ends what takes long, when the caller or the deadline gives the query up. */
  readonly signal: AbortSignal;
  /**
   * Partitions of these audiences only: admin-ness gives no sight of others (specification, Admin), and
   * nobody retires what he may not see. An admin who needs more grants it first.
   */
  readonly audiences: AudienceFilter;
  /** For `created_by`. */
  readonly identity: string;
  readonly nowMs: number;
}

type Rows = readonly Readonly<Record<string, JsonField>>[];

/**
 * Runs a call and returns its rows as a JSON array.
 * @throws ServiceError BAD_REQUEST with the reason; and what a merge throws
 */
export async function runAdminCall(context: AdminContext, call: AdminCall): Promise<string> {
  return `[${(await rowsOf(context, call)).map(jsonObject).join(",")}]`;
}

async function rowsOf(context: AdminContext, { name, values }: AdminCall): Promise<Rows> {
  const { sql, denials, audiences, identity } = context;
  const [first, second, third, fourth] = values;
  switch (name) {
    case "materialize_partitions":
    case "regenerate_partitions":
      return merged(
        tableOf(first),
        await context.merger.merge(
          {
            viewSet: tableOf(first),
            audiences,
            ...rangeOf(second, third),
            widthSeconds: widthOf(fourth),
            regenerate: name === "regenerate_partitions",
          },
          context.signal,
        ),
      );
    case "retire_partitions":
    case "retire_partition_by_metadata":
      return retired(
        await retirePartitions(
          sql,
          audiences,
          name === "retire_partitions"
            ? {
                kind: "range",
                viewSet: tableOf(first),
                processId: instanceOf(second),
                ...rangeOf(third, fourth),
              }
            : {
                kind: "bounds",
                viewSet: tableOf(first),
                processId: instanceOf(second),
                beginNs: timeOf(third),
                endNs: timeOf(fourth),
              },
        ),
      );
    case "retire_partition_by_file":
      return retired(await retirePartitions(sql, audiences, { kind: "path", path: textOf(first) }));
    case "apply_retention":
      return retired(
        await retirePartitions(sql, audiences, {
          kind: "older",
          viewSet: tableOf(first),
          thanNs: nanosOf(context.nowMs) - BigInt(daysOf(second)) * 86_400_000_000_000n,
        }),
      );
    case "list_query_denials":
      return (await denials.list()).map(denial);
    case "deny_queries":
      return [denial(await denials.add(textOf(first), textOf(second), identity))];
    case "remove_query_denial": {
      const removed = await denials.remove(textOf(first));
      if (removed === null) throw new ServiceError("NOT_FOUND", "There is no such rule.");
      return [denial(removed)];
    }
  }
}

function retired(partitions: readonly RetiredPartition[]): Rows {
  return partitions.map((partition) => ({
    view_set: partition.viewSet,
    partition_id: partition.partitionId,
    path: partition.path,
    row_count: partition.rowCount,
    file_bytes: partition.fileBytes,
  }));
}

function merged(viewSet: TableName, partitions: readonly MergedPartition[]): Rows {
  return partitions.map((partition) => ({
    action: partition.action,
    view_set: viewSet,
    partition_id: partition.partitionId,
    path: partition.path,
    row_count: partition.rowCount,
    file_bytes: partition.fileBytes,
  }));
}

function denial(rule: DenialRule): Rows[number] {
  return {
    rule_id: rule.ruleId,
    match_expr: rule.matchExpr,
    reason: rule.reason,
    created_at: rule.createdAt,
    created_by: rule.createdBy,
  };
}

/** The kind of an argument has been looked at before; a default in its place would change what is changed. */
function textOf(value: AdminArgument | undefined): string {
  if (typeof value === "string") return value;
  throw new TypeError("an argument is not the text that its signature says");
}

function timeOf(value: AdminArgument | undefined): bigint {
  if (typeof value === "bigint") return value;
  throw new TypeError("an argument is not the time that its signature says");
}

function rangeOf(
  begin: AdminArgument | undefined,
  end: AdminArgument | undefined,
): { readonly beginNs: bigint; readonly endNs: bigint } {
  const range = { beginNs: timeOf(begin), endNs: timeOf(end) };
  if (range.beginNs < range.endNs) return range;
  throw new ServiceError("BAD_REQUEST", "begin is before end.");
}

/** A year; wider objects would hardly ever be left out by a query's time. */
const maxWidthSeconds = 31_622_400;

function widthOf(value: AdminArgument | undefined): number {
  if (typeof value === "number" && value >= 1 && value <= maxWidthSeconds) return value;
  throw new ServiceError("BAD_REQUEST", `delta_seconds is from 1 to ${maxWidthSeconds}.`);
}

function tableOf(value: AdminArgument | undefined): TableName {
  const name = textOf(value).toLowerCase();
  const table = (Object.keys(tables) as TableName[]).find((known) => known === name);
  if (table !== undefined) return table;
  throw new ServiceError(
    "BAD_REQUEST",
    `view is one of those that have partitions: ${Object.keys(tables).join(", ")}.`,
  );
}

/** Null for `global`: all processes. */
function instanceOf(value: AdminArgument | undefined): string | null {
  const text = textOf(value);
  if (text === "global") return null;
  if (isUuid(text)) return text;
  throw new ServiceError("BAD_REQUEST", "instance is 'global' or a process id.");
}

/** A hundred years; what is older than that has no use for this function. */
const maxDays = 36_500;

function daysOf(value: AdminArgument | undefined): number {
  if (typeof value === "number" && value >= 1 && value <= maxDays) return value;
  throw new ServiceError("BAD_REQUEST", `older_than_days is from 1 to ${maxDays}.`);
}
