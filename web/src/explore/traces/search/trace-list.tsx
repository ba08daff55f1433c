/** Traces, one a row; a row opens its trace. */
import { cellsOf } from "../../../api/cells.js";
import { type ReactElement, useMemo } from "react";

import type { QueryResult } from "../../../api/query.js";
import { textValue, type Value } from "../../../arrow/column.js";
import { seriesColour } from "../../../ui/colours.js";
import { formatMilliseconds, formatNumber, formatTime, nothing } from "../../../ui/format.js";
import { DataTable } from "../../../ui/table/data-table.js";
import { resultColumns, type TableColumn } from "../../../ui/table/table-columns.js";
import { useTableState } from "../../../ui/table/table-state.js";
import css from "./traces-page.module.css";

export function TraceList(o: {
  /** Of `traces-page`. */
  readonly result: QueryResult;
  readonly narrow: boolean;
  readonly hasDate: boolean;
  readonly stale: boolean;
  readonly onOpen: (row: number) => void;
  readonly onFilter: (key: string, value: string | null, exclude: boolean) => void;
}): ReactElement {
  const { result, narrow, hasDate } = o;
  const [state, setState] = useTableState();
  const columns = useMemo(() => traceColumns(result, narrow, hasDate), [result, narrow, hasDate]);
  return (
    <DataTable
      label="Traces"
      columns={columns}
      rows={result.rows}
      version={result}
      state={state}
      onState={setState}
      stale={o.stale}
      onSelect={(row) => row !== null && o.onOpen(row)}
      onFilter={(column, value, exclude) => {
        const key = column.id === "root_service" ? "service_name" : column.id === "root_name" ? "name" : null;
        if (key !== null) {
          o.onFilter(key, value, exclude);
        }
      }}
    />
  );
}

function traceColumns(result: QueryResult, narrow: boolean, hasDate: boolean): readonly TableColumn[] {
  const { number, value } = cellsOf(result);
  let longest = 0;
  for (let row = 0; row < result.rows; row++) {
    longest = Math.max(longest, number("duration_ms", row));
  }
  const made = resultColumns(result, {
    time: {
      title: "Began",
      width: narrow ? 82 : hasDate ? 188 : 112,
      text: (row) => {
        const time = value("time", row);
        const whole = typeof time === "bigint" ? formatTime(time, { date: hasDate && !narrow }) : null;
        return narrow ? (whole?.slice(0, 8) ?? null) : whole;
      },
    },
    root_service: {
      title: "Service",
      width: 128,
      cell: (row) => {
        const name = textValue(value("root_service", row));
        return name === null ? (
          nothing
        ) : (
          <span className={css.service}>
            <span className={css.swatch} style={{ background: seriesColour(name) }} />
            <span className={css.name}>{name}</span>
          </span>
        );
      },
    },
    root_name: { title: "Root span", width: narrow ? 120 : 180 },
    duration_ms: {
      title: "Duration",
      width: narrow ? 92 : 150,
      align: "left",
      text: (row) => formatMilliseconds(number("duration_ms", row)),
      cell: (row) => {
        const ms = number("duration_ms", row);
        return (
          <span className={css.took}>
            <span className={css.tookText}>{formatMilliseconds(ms)}</span>
            {narrow ? null : (
              <span className={css.track}>
                <span className={css.fill} style={{ width: `${longest === 0 ? 0 : (ms / longest) * 100}%` }} />
              </span>
            )}
          </span>
        );
      },
    },
    spans: { title: "Spans", width: 66 },
    errors: {
      title: narrow ? "Err" : "Errors",
      width: narrow ? 50 : 68,
      cell: (row) => {
        const count = number("errors", row);
        return count === 0 ? nothing : <span className={css.failed}>{formatNumber(count)}</span>;
      },
    },
    services: {
      title: "Services",
      width: 140,
      mono: false,
      text: (row) => namesOf(value("services", row)).join(", "),
    },
  });
  const order = narrow
    ? ["time", "root_name", "errors", "duration_ms"]
    : ["time", "root_service", "root_name", "duration_ms", "spans", "errors", "services"];
  return order.flatMap((id) => made.filter((each) => each.id === id));
}

function namesOf(value: Value): readonly string[] {
  return Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];
}
