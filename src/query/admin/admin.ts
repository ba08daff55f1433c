/** Runs the admin functions. The gate has let the caller pass as an admin. */
import { type AnyAuthor, appendAudit } from "../../auth/audit.js";
import type { AudienceFilter } from "../../db/audience-filter.js";
import type { Sql } from "../../db/sql.js";
import type { MergedPartition, MergeRequest } from "../../lake/merge/merge.js";
import { type RetiredPartition, retirePartitions, type RetireSelection } from "../../lake/retire.js";
import { tables, type TableName } from "../../lake/tables/tables.js";
import { ServiceError } from "../../runtime/errors.js";
import { isUuid } from "../../runtime/text/uuid.js";
import { sqlHashOf } from "../fingerprint.js";
import type { AdminFunctionCall } from "../sql/admin-functions.js";
import type { DenialRule } from "./denial-table.js";
import type { DenialRules } from "./denials.js";
import { type RowField, jsonObject, nanosOf } from "../sql/json-rows.js";

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
   * Partitions of these audiences only: being an admin grants no audience, and nobody retires what they
   * may not read. An admin who needs more grants it first.
   */
  readonly audiences: AudienceFilter;
  /** For `created_by` and the audit. */
  readonly by: AnyAuthor;
  readonly nowMs: number;
}

type Rows = readonly Readonly<Record<string, RowField>>[];

/**
 * Runs a call and returns its rows as a JSON array.
 * @throws ServiceError BAD_REQUEST with the reason; and what a merge throws
 */
export async function runAdminCall(context: AdminContext, call: AdminFunctionCall): Promise<string> {
  return `[${(await rowsOf(context, call)).map(jsonObject).join(",")}]`;
}

async function rowsOf(context: AdminContext, call: AdminFunctionCall): Promise<Rows> {
  const { sql, denials, audiences, by } = context;
  const retire = (target: string, selection: RetireSelection): Promise<Rows> =>
    sql.begin(async (tx) => {
      const partitions = await retirePartitions(tx, audiences, selection);
      if (partitions.length > 0) {
        await appendAudit(tx, by, { action: "partitions.retire", target, details: retirement(call, partitions) });
      }
      return retired(partitions);
    });
  switch (call.name) {
    case "materialize_partitions":
    case "regenerate_partitions": {
      const { view, begin, end, delta_seconds: delta } = call.values;
      const viewSet = tableOf(view);
      const partitions = await context.merger.merge(
        {
          viewSet,
          audiences,
          ...rangeOf(begin, end),
          widthSeconds: widthOf(delta),
          regenerate: call.name === "regenerate_partitions",
        },
        context.signal,
      );
      return merged(viewSet, partitions);
    }
    case "retire_partitions": {
      const { view, instance, begin, end } = call.values;
      const rows = { viewSet: tableOf(view), processId: processOf(instance) };
      return retire(rows.viewSet, { kind: "range", ...rows, ...rangeOf(begin, end) });
    }
    case "retire_partition_by_metadata": {
      const { view, instance, begin, end } = call.values;
      const rows = { viewSet: tableOf(view), processId: processOf(instance) };
      return retire(rows.viewSet, { kind: "bounds", ...rows, beginNs: begin, endNs: end });
    }
    case "retire_partition_by_file": {
      const { path } = call.values;
      const rows = await retire(path, { kind: "path", path });
      if (rows.length === 0) {
        throw new ServiceError(
          "NOT_FOUND",
          "No partition of an audience that you may read has this path. list_partitions() has their paths; for one of another audience, grant yourself the right to read it first.",
        );
      }
      return rows;
    }
    case "apply_retention": {
      const keptNs = BigInt(daysOf(call.values.older_than_days)) * 86_400_000_000_000n;
      const thanNs = nanosOf(context.nowMs) - keptNs;
      const viewSet = tableOf(call.values.view);
      return retire(viewSet, { kind: "older", viewSet, thanNs });
    }
    case "list_query_denials":
      return (await denials.list()).map(denial);
    case "deny_queries": {
      const { match_expr: matchExpr, reason } = call.values;
      return [denial(await denials.add(by, { matchExpr, reason }))];
    }
    case "remove_query_denial": {
      const removed = await denials.remove(by, call.values.rule_id);
      if (removed === null) {
        throw new ServiceError("NOT_FOUND", "There is no such rule.");
      }
      return [denial(removed)];
    }
    case "test_query_denial": {
      const { match_expr: matchExpr, ...of } = call.values;
      const matches = await denials.test(matchExpr, { ...of, sql_hash: sqlHashOf(of.sql) }, context.signal);
      return [{ matches }];
    }
  }
}

function retired(partitions: readonly RetiredPartition[]): Rows {
  return partitions.map((partition) => ({ view_set: partition.viewSet, ...objectColumns(partition) }));
}

/** What a call that takes rows away leaves in the audit: its arguments, and how much it took. */
function retirement({ name, values }: AdminFunctionCall, partitions: readonly RetiredPartition[]) {
  const rows = partitions.reduce((sum, { rowCount }) => sum + rowCount, 0);
  return {
    ...Object.fromEntries(Object.entries(values).map(([parameter, value]) => [parameter, String(value)])),
    function: name,
    partitions: String(partitions.length),
    rows: String(rows),
  };
}

function objectColumns({ partitionId, path, rowCount, fileBytes }: Omit<RetiredPartition, "viewSet">): Rows[number] {
  return { partition_id: partitionId, path, row_count: rowCount, file_bytes: fileBytes };
}

function merged(viewSet: TableName, partitions: readonly MergedPartition[]): Rows {
  return partitions.map((partition) => ({
    action: partition.action,
    view_set: viewSet,
    ...objectColumns(partition),
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

function rangeOf(beginNs: bigint, endNs: bigint): { readonly beginNs: bigint; readonly endNs: bigint } {
  if (beginNs < endNs) {
    return { beginNs, endNs };
  }
  throw new ServiceError("BAD_REQUEST", "begin is before end.");
}

/** A year; wider objects would hardly ever be left out by a query's time. */
const maxWidthSeconds = 31_622_400;

function widthOf(value: number): number {
  if (value >= 1 && value <= maxWidthSeconds) {
    return value;
  }
  throw new ServiceError("BAD_REQUEST", `delta_seconds is from 1 to ${maxWidthSeconds}.`);
}

function tableOf(view: string): TableName {
  const name = view.toLowerCase();
  const table = (Object.keys(tables) as TableName[]).find((known) => known === name);
  if (table !== undefined) {
    return table;
  }
  throw new ServiceError(
    "BAD_REQUEST",
    `view is one of those that have partitions: ${Object.keys(tables).join(", ")}.`,
  );
}

/** Null for `global`: all processes. */
function processOf(instance: string): string | null {
  if (instance === "global") {
    return null;
  }
  if (isUuid(instance)) {
    return instance;
  }
  throw new ServiceError("BAD_REQUEST", "instance is 'global' or a process id.");
}

/** A hundred years; what is older than that has no use for this function. */
const maxDays = 36_500;

function daysOf(value: number): number {
  if (value >= 1 && value <= maxDays) {
    return value;
  }
  throw new ServiceError("BAD_REQUEST", `older_than_days is from 1 to ${maxDays}.`);
}
