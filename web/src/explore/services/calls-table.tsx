/** Who calls whom, as a table. */
import { type ReactElement, useMemo } from "react";

import { formatMilliseconds, formatNumber, formatPercent, formatRate } from "../../ui/format.js";
import { DataTable } from "../../ui/table/data-table.js";
import { figures, type TableColumn } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import { ErrorShare } from "./error-share.js";
import type { Call } from "./service-data.js";

export function CallsTable({
  calls,
  seconds,
  stale,
  without,
  label = "Calls",
  onOpen,
}: {
  readonly calls: readonly Call[];
  readonly seconds: number;
  readonly stale: boolean;
  /** The end that all have in common is not shown. */
  readonly without?: "caller" | "callee";
  readonly label?: string;
  readonly onOpen: (name: string) => void;
}): ReactElement {
  const [state, setState] = useTableState(without === undefined ? "" : `${without}-`);
  const columns = useMemo(() => {
    const all = columnsOf(calls, seconds);
    const narrow = new Set([without, "calls", "type"]);
    return without === undefined ? all : all.filter(({ id }) => !narrow.has(id));
  }, [calls, seconds, without]);
  return (
    <DataTable
      label={label}
      columns={columns}
      rows={calls.length}
      version={calls}
      state={state}
      onState={setState}
      onSelect={(row) => {
        const call = row === null ? undefined : calls[row];
        if (call !== undefined) {
          onOpen(without === "callee" || call.calleeType !== "service" ? call.caller : call.callee);
        }
      }}
      stale={stale}
    />
  );
}

function columnsOf(calls: readonly Call[], seconds: number): readonly TableColumn[] {
  const text = (id: string, title: string, of: (call: Call) => string, width = 180): TableColumn => ({
    id,
    title,
    width,
    text: (row) => (calls[row] === undefined ? null : of(calls[row])),
    sortBy: (row) => (calls[row] === undefined ? null : of(calls[row])),
  });
  const number = (
    id: string,
    title: string,
    of: (call: Call) => number,
    format: (value: number) => string,
  ): TableColumn => ({
    id,
    title,
    width: 84,
    ...figures,
    text: (row) => (calls[row] === undefined ? null : format(of(calls[row]))),
    sortBy: (row) => (calls[row] === undefined ? null : of(calls[row])),
  });
  return [
    text("caller", "Caller", ({ caller }) => caller, 150),
    text("callee", "Callee", ({ callee }) => callee, 150),
    text("type", "Type", ({ calleeType }) => calleeType, 90),
    number("rate", "Rate", (call) => call.calls / seconds, formatRate),
    number("calls", "Calls", (call) => call.calls, formatNumber),
    {
      ...number("errors", "Errors", (call) => call.errors / call.calls, formatPercent),
      cell: (row) => (calls[row] === undefined ? null : <ErrorShare share={calls[row].errors / calls[row].calls} />),
    },
    number("p50", "p50", ({ p50 }) => p50, formatMilliseconds),
    number("p95", "p95", ({ p95 }) => p95, formatMilliseconds),
  ];
}
