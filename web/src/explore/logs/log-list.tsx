/** The records themselves, newest first. */
import type { ReactElement, ReactNode } from "react";
import { useMemo } from "react";

import { textValue, timeValue } from "../../arrow/column.js";
import { attributeOf } from "../../ui/filters/filters.js";
import { formatTime, formatTimeExact, oneLine } from "../../ui/format.js";
import { LevelLetter } from "../../ui/level.js";
import { DataTable } from "../../ui/table/data-table.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import { attributeText, isLogColumn, logColumns, type LogRows } from "./log-rows.js";
import css from "./logs-page.module.css";

const shownCharacters = 400;

export function LogList(o: {
  readonly rows: LogRows;
  /** Keys of one's own: columns of the view, or attributes. */
  readonly columns: readonly string[];
  /** Marked in messages. */
  readonly searched: string;
  /** Of the range: a day and more shows dates. */
  readonly spanMs: number;
  readonly narrow: boolean;
  readonly stale: boolean;
  readonly selected: number | null;
  readonly onSelect: (row: number | null) => void;
  readonly onFilter: (key: string, value: string | null, exclude: boolean) => void;
}): ReactElement {
  const [state, setState] = useTableState();
  const { rows, columns: own, searched, narrow } = o;
  const hasDate = o.spanMs > 86_400_000;
  const columns = useMemo(
    () => logTableColumns(rows, own, searched, hasDate, narrow),
    [rows, own, searched, hasDate, narrow],
  );
  return (
    <DataTable
      label="Log records"
      columns={columns}
      rows={rows.count}
      version={rows}
      state={state}
      onState={setState}
      selected={o.selected}
      onSelect={o.onSelect}
      stale={o.stale}
      onFilter={(column, value, exclude) => {
        if (column.id !== "time") {
          o.onFilter(column.id, value, exclude);
        }
      }}
    />
  );
}

function logTableColumns(
  rows: LogRows,
  own: readonly string[],
  searched: string,
  hasDate: boolean,
  narrow: boolean,
): readonly TableColumn[] {
  const text = (name: string) => (row: number) =>
    isLogColumn(name)
      ? textValue(rows.value(row, name))
      : attributeText(rows.value(row, "properties"), attributeOf(name, logColumns));
  const message = text("msg");
  const level = text("level_name");
  const service = text("service_name");
  const time: TableColumn = {
    id: "time",
    title: "Time",
    width: hasDate && !narrow ? 188 : 112,
    mono: true,
    text: (row) => formatTime(timeValue(rows.value(row, "time")), { date: hasDate && !narrow }),
    hint: (row) => formatTimeExact(timeValue(rows.value(row, "time"))),
    sortBy: (row) => timeValue(rows.value(row, "time")),
  };
  return [
    narrow ? { ...time, width: 88, text: (row) => time.text(row)?.slice(0, 8) ?? null } : time,
    {
      id: "level_name",
      title: narrow ? "Lvl" : "Level",
      width: narrow ? 48 : 60,
      text: level,
      cell: (row) => <LevelLetter level={level(row)} />,
      sortBy: level,
    },
    ...(narrow ? [] : [{ id: "service_name", title: "Service", width: 130, text: service, sortBy: service }]),
    ...own
      .filter((name) => !["level_name", "service_name", "msg", "time"].includes(name))
      .map((name): TableColumn => ({
        id: name,
        title: name,
        width: 140,
        mono: true,
        text: text(name),
        sortBy: text(name),
      })),
    {
      id: "msg",
      title: "Message",
      keep: true,
      width: narrow ? 220 : 300,
      mono: true,
      text: (row) => cut(message(row)),
      cell: (row) => marked(cut(message(row)), searched),
      hint: (row) => message(row)?.slice(0, 2000) ?? null,
      filterValue: message,
      sortBy: message,
    },
  ];
}

const cut = (text: string | null): string | null =>
  text === null ? null : oneLine(text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text);

/** The text with what was searched for marked. */
function marked(text: string | null, searched: string): ReactNode {
  if (text === null || searched === "") {
    return text;
  }
  const found = isExact(searched) ? text : text.toLowerCase();
  const parts: ReactNode[] = [];
  let from = 0;
  for (let at = found.indexOf(searched); at !== -1 && parts.length < 40; at = found.indexOf(searched, from)) {
    parts.push(
      text.slice(from, at),
      <mark key={at} className={css.mark}>
        {text.slice(at, at + searched.length)}
      </mark>,
    );
    from = at + searched.length;
  }
  return [...parts, text.slice(from)];
}

/** A search with an upper-case letter minds upper case; one without does not. */
export const isExact = (searched: string): boolean => searched !== searched.toLowerCase();
