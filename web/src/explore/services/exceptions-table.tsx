/** Exceptions of a service by type, with the trace of the latest. */
import { useNavigate } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";

import { cellsOf } from "../../api/cells.js";
import type { SqlState } from "../../api/use-query-sql.js";
import { DataTable } from "../../ui/table/data-table.js";
import { resultColumns } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import { traceAddress } from "../trace-address.js";

export function exceptionsSql(condition: string): string {
  return `SELECT type, count(*) AS times, max(time) AS latest, arg_max(message, time) AS message,
  string_agg(DISTINCT source, ', ' ORDER BY source) AS source, arg_max(trace_id, time) AS trace_id
FROM exceptions WHERE ${condition} GROUP BY ALL ORDER BY times DESC LIMIT 200`;
}

export function ExceptionsTable({ query: { result, stale } }: { readonly query: SqlState }): ReactElement | null {
  const [state, setState] = useTableState("exceptions-");
  const navigate = useNavigate();
  const columns = useMemo(
    () =>
      resultColumns(result, {
        type: { title: "Type", width: 220 },
        times: { title: "Times", width: 80 },
        latest: { title: "Latest" },
        message: { title: "Latest message", keep: true, width: 380 },
        source: { title: "Seen in", width: 90 },
        trace_id: { title: "Trace", width: 260 },
      }),
    [result],
  );
  if (result === null) {
    return null;
  }
  const { text, number } = cellsOf(result);
  return (
    <DataTable
      label="Exceptions"
      columns={columns}
      rows={result.rows}
      version={result}
      state={state}
      onState={setState}
      onSelect={(row) => {
        const trace = row === null ? "" : text("trace_id", row);
        if (trace !== "") {
          void navigate(traceAddress(trace, number("latest", row ?? 0)));
        }
      }}
      stale={stale}
    />
  );
}
