/** What cells over a query share: the query with its variables bound, what is shown around its result, the table. */
import { type ReactElement, type ReactNode, useMemo } from "react";

import type { QueryResult } from "../api/query.js";
import { type SqlState, useQuerySql } from "../api/use-query-sql.js";
import { useTimeRange } from "../app/time-range-context.js";
import { bucketSeconds } from "../ui/chart/series.js";
import { formatNumber } from "../ui/format.js";
import { Banner, EmptyState, ErrorPart, LoadingLine, Skeleton } from "../ui/states.js";
import { DataTable } from "../ui/table/data-table.js";
import { resultColumns, type TableColumn } from "../ui/table/table-columns.js";
import css from "./screen.module.css";
import { bindVariables, readOnly, type VariableValue } from "./variables.js";

/** What cells need of their screen. */
export interface CellContext {
  readonly values: ReadonlyMap<string, VariableValue>;
  readonly onValue: (name: string, value: string) => void;
}

/** Most rows of a cell. */
const maxRows = 10_000;
const chartPixels = 600;

interface CellQuery {
  readonly state: SqlState;
  readonly missing: readonly string[];
}

/** @param limit most rows */
export function useCellQuery(sql: string, { values }: CellContext, limit = maxRows): CellQuery {
  const { resolved } = useTimeRange();
  const {
    sql: bound,
    parameters,
    missing,
  } = useMemo(() => {
    const interval = bucketSeconds(resolved.endMs - resolved.beginMs, chartPixels);
    return bindVariables(sql, new Map<string, VariableValue>([["interval", interval], ...values]));
  }, [sql, values, resolved.endMs - resolved.beginMs]);
  const enabled = sql.trim() !== "" && missing.length === 0;
  return { state: useQuerySql(readOnly(bound), { parameters, limit, enabled }), missing };
}

/** A heading, and whatever came of the query. */
export function QueryPart({
  title,
  query: { state, missing },
  children,
  showsNone = false,
}: {
  readonly title: string;
  readonly query: CellQuery;
  readonly children: (result: QueryResult) => ReactNode;
  /** Whether `children` show a result without rows, too. */
  readonly showsNone?: boolean;
}): ReactElement {
  const { result, error, running, stale, summary } = state;
  return (
    <section className={css.cell} aria-label={title}>
      {title === "" ? null : <h3 className={css.title}>{title}</h3>}
      <LoadingLine running={running} />
      {missing.length === 0 ? null : (
        <Banner kind="warn">
          There is no variable {missing.map((name) => `$${name}`).join(", ")}. Add a variable cell of that name.
        </Banner>
      )}
      {error === null ? null : <ErrorPart error={error} title="The query of this cell failed" onRetry={state.run} />}
      {summary?.cut === true ? (
        <Banner kind="warn">Only the first {formatNumber(summary.rows)} rows are here.</Banner>
      ) : null}
      {result === null ? (
        running ? (
          <Skeleton rows={4} />
        ) : null
      ) : result.rows === 0 && !showsNone ? (
        error === null ? (
          <EmptyState title="No rows" stale={stale}>
            The query found nothing in this time range.
          </EmptyState>
        ) : null
      ) : (
        children(result)
      )}
    </section>
  );
}

export const noColumns = (): Readonly<Record<string, Partial<TableColumn>>> => ({});

export function ResultTable({
  label,
  result,
  state,
  over,
}: {
  readonly label: string;
  readonly result: QueryResult;
  readonly state: SqlState;
  readonly over: (result: QueryResult) => Readonly<Record<string, Partial<TableColumn>>>;
}): ReactElement {
  const columns = useMemo(() => resultColumns(result, over(result)), [result.columns, state.summary, over]);
  return (
    <div className={css.table} style={{ height: Math.min(320, 34 + 28 * Math.max(result.rows, 2)) }}>
      <DataTable label={label} columns={columns} rows={result.rows} version={result} stale={state.stale} />
    </div>
  );
}
