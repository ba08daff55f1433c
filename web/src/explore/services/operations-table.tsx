/** What a service does, by name and kind of its spans. */
import { type ReactElement, useMemo } from "react";

import { cellsOf } from "../../api/cells.js";
import type { SqlState } from "../../api/use-query-sql.js";
import { formatMilliseconds, formatPercent, formatRate } from "../../ui/format.js";
import { DataTable } from "../../ui/table/data-table.js";
import { figures, resultColumns, type TableColumn } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import { ErrorShare } from "./error-share.js";
import { isRequest } from "./service-data.js";

/** Requests first. */
export function operationsSql(condition: string): string {
  return `SELECT name, count(*) AS calls, count_if(is_error) AS errors, errors / calls AS share,
  approx_quantile(duration_ms, 0.5) AS p50, approx_quantile(duration_ms, 0.95) AS p95, max(duration_ms) AS longest,
  bool_or(${isRequest}) AS request, sum(duration_ms) AS total, kind_name AS kind
FROM spans WHERE ${condition} GROUP BY name, kind_name ORDER BY request DESC, total DESC LIMIT 1000`;
}

export function OperationsTable({
  query: { result, stale },
  seconds,
  selected,
  onSelect,
}: {
  readonly query: SqlState;
  readonly seconds: number;
  /** Its name. */
  readonly selected: string | null;
  readonly onSelect: (name: string | null) => void;
}): ReactElement | null {
  const [state, setState] = useTableState("operations-");
  const cells = useMemo(() => (result === null ? null : cellsOf(result)), [result]);
  const columns = useMemo<readonly TableColumn[]>(() => {
    if (result === null || cells === null) {
      return [];
    }
    const { number } = cells;
    const milliseconds = (id: string): Partial<TableColumn> => ({
      width: 96,
      text: (row) => formatMilliseconds(number(id, row)),
    });
    const found = resultColumns(result, {
      name: { title: "Operation", width: 260 },
      kind: { title: "Kind", width: 90 },
      calls: { title: "Calls", width: 84 },
      share: {
        title: "Errors",
        keep: true,
        width: 84,
        text: (row) => formatPercent(number("share", row)),
        cell: (row) => <ErrorShare share={number("share", row)} />,
      },
      p50: milliseconds("p50"),
      p95: { ...milliseconds("p95"), keep: true },
      longest: { title: "Longest", ...milliseconds("longest") },
      total: { title: "Total time", ...milliseconds("total"), width: 110 },
    }).filter(({ id }) => id !== "request" && id !== "errors");
    const rate: TableColumn = {
      id: "rate",
      title: "Rate",
      width: 88,
      ...figures,
      text: (row) => formatRate(number("calls", row) / seconds),
      sortBy: (row) => number("calls", row),
    };
    return found.toSpliced(1, 0, rate);
  }, [result, cells, seconds]);
  if (result === null || cells === null) {
    return null;
  }
  const names = Array.from({ length: result.rows }, (_, row) => cells.text("name", row));
  const at = selected === null ? -1 : names.indexOf(selected);
  return (
    <DataTable
      label="Operations"
      columns={columns}
      rows={result.rows}
      version={result}
      state={state}
      onState={setState}
      selected={at === -1 ? null : at}
      onSelect={(row) => onSelect(row === null ? null : (names[row] ?? null))}
      stale={stale}
    />
  );
}
