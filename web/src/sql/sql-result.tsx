/** What a query answered: table, chart or text, and what went wrong. */
import { Database } from "lucide-react";
import { type ReactElement, useMemo, useState } from "react";

import type { SqlState } from "../api/use-query-sql.js";
import type { QueryResult } from "../api/query.js";
import { formatNumber } from "../ui/format.js";
import { Panel, RecordFields, Split } from "../ui/panel.js";
import { Banner, EmptyState, ErrorPart, Skeleton } from "../ui/states.js";
import { DataTable } from "../ui/table/data-table.js";
import { resultColumns } from "../ui/table/table-columns.js";
import { useTableState } from "../ui/table/table-state.js";
import { ChartView } from "./chart-view.js";
import { RawView } from "./raw-view.js";
import css from "./sql-page.module.css";

export type ResultView = "table" | "chart" | "raw";

export function SqlResult({
  query,
  sql,
  asked,
  view,
  onRetry,
}: {
  readonly query: SqlState;
  /** What `query` runs. */
  readonly sql: string;
  readonly asked: boolean;
  readonly view: ResultView;
  readonly onRetry: () => void;
}): ReactElement {
  const { result, error, summary, stale } = query;
  if (!asked) {
    return (
      <EmptyState icon={<Database />} title="Nothing has run yet">
        Run the query with Ctrl Enter or F5; leave the editor with Escape, then Tab. Results are narrowed to the time
        range at the top.
      </EmptyState>
    );
  }
  return (
    <div className={css.result}>
      <div className={css.notes}>
        {error === null ? null : <ErrorPart error={error} title="The query failed" onRetry={onRetry} />}
        {summary?.cut === true ? (
          <Banner kind="warn">
            Only the first {formatNumber(summary.rows)} rows are here. Ask for more at the limit, or for less in the
            query.
          </Banner>
        ) : null}
      </div>
      <div className={css.body}>
        {result === null || result.columns.length === 0 ? (
          query.slow ? (
            <Skeleton />
          ) : null
        ) : result.rows === 0 ? (
          error === null ? (
            <EmptyState title="No rows" stale={stale}>
              The query found nothing in this time range.
            </EmptyState>
          ) : null
        ) : view === "chart" ? (
          <ChartView result={result} stale={stale} />
        ) : view === "raw" ? (
          <RawView result={result} />
        ) : (
          <TableView result={result} sql={sql} stale={stale} done={summary !== null} />
        )}
      </div>
    </div>
  );
}

function TableView({
  result,
  sql,
  stale,
  done,
}: {
  readonly result: QueryResult;
  readonly sql: string;
  readonly stale: boolean;
  readonly done: boolean;
}): ReactElement {
  const [state, setState] = useTableState();
  const [chosen, setChosen] = useState<{ readonly sql: string; readonly row: number } | null>(null);
  // The third row of another query is not what somebody has opened.
  const selected = chosen?.sql === sql && chosen.row < result.rows ? chosen.row : null;
  // As wide as the first rows ask for, and again when all are there.
  const columns = useMemo(() => resultColumns(result), [result.columns, done]);
  return (
    <Split
      panel={
        selected === null ? null : (
          <Panel title={`Row ${formatNumber(selected + 1)}`} onClose={() => setChosen(null)}>
            <RecordFields result={result} row={selected} />
          </Panel>
        )
      }
    >
      <DataTable
        label="Result"
        columns={columns}
        rows={result.rows}
        version={result}
        state={state}
        onState={setState}
        selected={selected}
        onSelect={(row) => setChosen(row === null ? null : { sql, row })}
        stale={stale}
      />
    </Split>
  );
}
