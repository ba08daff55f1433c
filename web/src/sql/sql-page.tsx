/** SQL: ask, see, cancel. The text is in the address once it has run; it never runs because of an address alone. */
import { Database, Play, Square } from "lucide-react";
import { type ReactElement, useMemo, useState } from "react";

import { type SqlState, useQuerySql } from "../api/use-query-sql.js";
import { textOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { useTimeRange } from "../app/time-range-context.js";
import { Button } from "../ui/controls.js";
import { formatBytes, formatMilliseconds, formatNumber } from "../ui/format.js";
import { Panel, RecordFields, Split } from "../ui/panel.js";
import { Banner, EmptyState, ErrorPart, LoadingLine } from "../ui/states.js";
import { DataTable } from "../ui/table/data-table.js";
import { resultColumns } from "../ui/table/table-columns.js";
import { useTableState } from "../ui/table/table-state.js";
import { SqlEditor } from "./sql-editor.js";
import css from "./sql-page.module.css";

const firstText = "SELECT time, service_name, level_name, msg\nFROM log_entries\nORDER BY time DESC\nLIMIT 1000";

export default function SqlPage(): ReactElement {
  const { sql } = useSearchParameters();
  const changeSearch = useChangeSearch();
  const { refresh } = useTimeRange();
  const [text, setText] = useState(textOf(sql) ?? firstText);
  const [asked, setAsked] = useState<string | null>(null);
  const query = useQuerySql(asked ?? "", { enabled: asked !== null });

  const run = (selection: string): void => {
    const next = selection.trim() === "" ? text : selection;
    if (next.trim() === "") {
      return;
    }
    changeSearch({ sql: text });
    setAsked(next);
    refresh();
  };
  return (
    <div className={css.page}>
      <div className={css.editor}>
        <SqlEditor label="SQL" value={text} onChange={setText} onRun={run} />
      </div>
      <div className={css.bar}>
        {query.running ? (
          <Button onClick={query.cancel}>
            <Square /> Cancel
          </Button>
        ) : (
          <Button look="primary" onClick={() => run("")}>
            <Play /> Run
          </Button>
        )}
        <span className={css.said} role="status">
          {wordsFor(query)}
        </span>
      </div>
      <LoadingLine running={query.running} />
      <ResultPart query={query} asked={asked !== null} onRetry={() => run("")} />
    </div>
  );
}

function wordsFor({ running, slow, progress, summary, result, cancelled }: SqlState): string {
  if (running) {
    const rows = Math.max(progress?.rows ?? 0, 0);
    return slow ? `Running${rows > 0 ? `, ${formatNumber(rows)} rows so far` : ""}` : "";
  }
  if (cancelled) {
    return `Cancelled${result === null ? "" : ` after ${formatNumber(result.rows)} rows`}`;
  }
  return summary === null
    ? ""
    : `${formatNumber(summary.rows)} rows, ${formatBytes(summary.bytes)} in ${formatMilliseconds(summary.milliseconds)}`;
}

function ResultPart({
  query,
  asked,
  onRetry,
}: {
  readonly query: SqlState;
  readonly asked: boolean;
  readonly onRetry: () => void;
}): ReactElement {
  const { result, error, summary, stale } = query;
  const [state, setState] = useTableState();
  const [selected, setSelected] = useState<number | null>(null);
  // The same columns as long as they are the same query's; their rows grow.
  const columns = useMemo(() => (result === null ? [] : resultColumns(result)), [result?.columns, summary]);
  if (!asked) {
    return (
      <EmptyState icon={<Database />} title="Nothing has run yet">
        Run the query with Ctrl Enter or F5. Results are narrowed to the time range at the top.
      </EmptyState>
    );
  }
  return (
    <div className={css.result}>
      <div>
        {error === null ? null : (
          <div className={css.note}>
            <ErrorPart error={error} title="The query failed" onRetry={onRetry} />
          </div>
        )}
        {summary?.cut === true ? (
          <div className={css.note}>
            <Banner kind="warn">Only the first {formatNumber(summary.rows)} rows are here.</Banner>
          </div>
        ) : null}
      </div>
      {result === null || result.columns.length === 0 ? null : result.rows === 0 ? (
        <EmptyState title="No rows">The query found nothing in this time range.</EmptyState>
      ) : (
        <Split
          panel={
            selected === null || selected >= result.rows ? null : (
              <Panel title={`Row ${formatNumber(selected + 1)}`} onClose={() => setSelected(null)}>
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
            onSelect={setSelected}
            stale={stale}
          />
        </Split>
      )}
    </div>
  );
}
