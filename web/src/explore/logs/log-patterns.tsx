/** What kinds of messages there are, and how many of each. */
import { Rows3 } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { useQuerySql } from "../../api/use-query-sql.js";
import { useTimeRange } from "../../app/time-range-context.js";
import type { Condition } from "../../ui/filters/filters.js";
import { formatAge, formatNumber, formatPercent } from "../../ui/format.js";
import { LevelLetter } from "../../ui/level.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../ui/states.js";
import { DataTable } from "../../ui/table/data-table.js";
import { resultColumns, type TableColumn } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import css from "./logs-page.module.css";

const mostPatterns = 1000;

export function LogPatterns({
  condition,
  total,
  narrow,
  onPick,
}: {
  readonly condition: Condition;
  /** Of all records; 0: not known yet. */
  readonly total: number;
  readonly narrow: boolean;
  readonly onPick: (pattern: string, exclude: boolean) => void;
}): ReactElement {
  const { resolved } = useTimeRange();
  const query = useQuerySql(
    `SELECT arg_min(level_name, level) AS level, count(*) AS entries, count(*) AS share, max(time) AS latest,
array_to_string(list_sort(list_distinct(list(service_name))), ', ') AS services, log_pattern(msg) AS pattern
FROM log_entries WHERE ${condition.sql} GROUP BY log_pattern(msg) ORDER BY entries DESC, pattern LIMIT ${mostPatterns}`,
    { parameters: condition.parameters },
  );
  const { result } = query;
  const [state, setState] = useTableState("pattern-");
  const columns = useMemo<readonly TableColumn[]>(() => {
    if (result === null) {
      return [];
    }
    const [level, , share, latest] = result.columns;
    const made = resultColumns(result, {
      level: {
        title: "Level",
        width: 62,
        mono: false,
        cell: (row) => <LevelLetter level={(level?.value(row) as string | null) ?? null} />,
      },
      entries: { title: "Count", width: 84 },
      share: {
        title: "Share",
        width: 76,
        text: (row) => formatPercent((share?.number(row) ?? 0) / Math.max(1, total)),
      },
      latest: { title: "Latest", width: 104, text: (row) => formatAge(latest?.number(row) ?? 0, resolved.endMs) },
      services: { title: "Services", width: 150 },
      pattern: { title: "Pattern", keep: true, mono: true, width: narrow ? 210 : 400 },
    });
    return narrow ? made.filter(({ id }) => id === "entries" || id === "level" || id === "pattern") : made;
  }, [result, total, narrow, resolved.endMs]);
  const problem =
    query.error === null ? null : (
      <div className={css.note}>
        <ErrorPart error={query.error} title="The patterns could not be counted" onRetry={query.run} />
      </div>
    );
  if (problem !== null && (result === null || result.rows === 0)) {
    return problem;
  }
  if (result === null) {
    return <Skeleton />;
  }
  if (result.rows === 0) {
    return (
      <EmptyState icon={<Rows3 />} title="No patterns" stale={query.stale}>
        No log record matches. Widen the time range or take a filter away.
      </EmptyState>
    );
  }
  const pattern = result.columns[5];
  const pick = (row: number, exclude: boolean): void => {
    const text = pattern?.value(row);
    if (typeof text === "string") {
      onPick(text, exclude);
    }
  };
  return (
    <div className={css.table}>
      <LoadingLine running={query.running} />
      {problem}
      <DataTable
        label={`${formatNumber(result.rows)} patterns`}
        columns={columns}
        rows={result.rows}
        version={result}
        state={state}
        onState={setState}
        stale={query.stale}
        onSelect={(row) => row !== null && pick(row, false)}
        onFilter={(column, value, exclude) => {
          if (column.id === "pattern" && value !== null) {
            onPick(value, exclude);
          }
        }}
      />
    </div>
  );
}
