/** The spans of two traces as one tree, or sorted by what differs. */
import { type ReactElement, useMemo } from "react";

import { seriesColour } from "../../../ui/colours.js";
import { classes } from "../../../ui/controls/controls.js";
import { formatMilliseconds, formatPercent } from "../../../ui/format.js";
import { DataTable } from "../../../ui/table/data-table.js";
import { figures, type TableColumn } from "../../../ui/table/table-columns.js";
import { useTableState } from "../../../ui/table/table-state.js";
import { type AlignedSpan, differenceMs } from "./alignment.js";
import css from "./compare.module.css";

/** "+12 ms" */
export const signedMs = (ms: number): string =>
  ms === 0 ? "0" : ms > 0 ? `+${formatMilliseconds(ms)}` : `−${formatMilliseconds(-ms)}`;

/** "+25%"; empty where there is nothing to compare with. */
export function changeText(before: number, after: number): string {
  if (before <= 0) {
    return "";
  }
  const change = (after - before) / before;
  const sign = change > 0 ? "+" : change < 0 ? "−" : "";
  return change >= 10 ? `×${(after / before).toFixed(0)}` : `${sign}${formatPercent(Math.abs(change))}`;
}

/** Deeper ones are shown no further to the right. */
const deepest = 24;

export function CompareTable({
  rows,
  narrow,
  selected,
  onSelect,
}: {
  readonly rows: readonly AlignedSpan[];
  readonly narrow: boolean;
  readonly selected: number | null;
  readonly onSelect: (row: number | null) => void;
}): ReactElement {
  const [state, setState] = useTableState();
  const columns = useMemo(() => columnsOf(rows, narrow, state.sort === null), [rows, narrow, state.sort === null]);
  return (
    <DataTable
      label="Spans of both traces"
      columns={columns}
      rows={rows.length}
      version={rows}
      state={state}
      onState={setState}
      selected={selected}
      onSelect={onSelect}
    />
  );
}

/** Null: in both. */
const onlyIn = ({ a, b }: AlignedSpan): "A" | "B" | null => (a === null ? "B" : b === null ? "A" : null);

function columnsOf(rows: readonly AlignedSpan[], narrow: boolean, isTree: boolean): readonly TableColumn[] {
  const longest = rows.reduce((most, { a, b }) => Math.max(most, a?.durationMs ?? 0, b?.durationMs ?? 0), 1e-6);
  const spanAt = (row: number) => rows[row]?.a ?? rows[row]?.b ?? null;
  const took = (id: "a" | "b"): TableColumn => ({
    id,
    title: id.toUpperCase(),
    width: narrow ? 71 : 84,
    ...figures,
    text: (row) => {
      const span = rows[row]?.[id] ?? null;
      return span === null ? null : formatMilliseconds(span.durationMs);
    },
    sortBy: (row) => rows[row]?.[id]?.durationMs ?? null,
  });
  const difference = (id: string, title: string, of: "durationMs" | "selfMs", width: number): TableColumn => {
    const text = (row: number): string | null => {
      const pair = rows[row];
      const alone = pair === undefined ? null : onlyIn(pair);
      return pair === undefined
        ? null
        : alone === null
          ? signedMs(differenceMs(pair, of))
          : `only${narrow ? "" : " in"} ${alone}`;
    };
    return {
      id,
      title,
      width,
      ...figures,
      text,
      cell: (row) => {
        const pair = rows[row];
        const ms = pair === undefined ? 0 : differenceMs(pair, of);
        const alone = pair === undefined ? null : onlyIn(pair);
        return (
          <span
            className={classes(
              alone === null ? (ms > 0 ? css.more : ms < 0 ? css.less : undefined) : css.alone,
              alone !== null && css[alone],
            )}
          >
            {text(row)}
          </span>
        );
      },
      sortBy: (row) => (rows[row] === undefined ? null : differenceMs(rows[row], of)),
    };
  };
  const name: TableColumn = {
    id: "span",
    title: "Span",
    width: narrow ? 102 : 280,
    text: (row) => spanAt(row)?.name ?? null,
    hint: (row) => {
      const span = spanAt(row);
      return span === null ? null : `${span.service}: ${span.name}`;
    },
    cell: (row) => {
      const span = spanAt(row);
      const depth = isTree ? Math.min(rows[row]?.depth ?? 0, deepest) : 0;
      return span === null ? null : (
        <span className={css.span} style={{ paddingLeft: depth * (narrow ? 5 : 14) }}>
          <span className={css.swatch} style={{ background: seriesColour(span.service) }} />
          <span className={css.name}>{span.name}</span>
        </span>
      );
    },
    sortBy: (row) => spanAt(row)?.name ?? null,
  };
  if (narrow) {
    return [name, took("a"), took("b"), difference("difference", "Diff.", "durationMs", 80)];
  }
  return [
    name,
    took("a"),
    took("b"),
    difference("difference", "Difference", "durationMs", 104),
    {
      id: "change",
      title: "Change",
      width: 80,
      ...figures,
      text: (row) => {
        const { a, b } = rows[row] ?? { a: null, b: null };
        return a === null || b === null ? "" : changeText(a.durationMs, b.durationMs);
      },
      sortBy: (row) => {
        const { a, b } = rows[row] ?? { a: null, b: null };
        return a === null || b === null || a.durationMs <= 0 ? null : b.durationMs / a.durationMs;
      },
    },
    difference("self", "Itself", "selfMs", 104),
    {
      id: "service",
      title: "Service",
      width: 120,
      text: (row) => spanAt(row)?.service ?? null,
      sortBy: (row) => spanAt(row)?.service ?? null,
    },
    {
      id: "bars",
      title: "A above B",
      width: 130,
      text: () => "",
      hint: () => null,
      cell: (row) => (
        <span className={css.bars}>
          {(["a", "b"] as const).map((id) => (
            <span
              key={id}
              className={css[id.toUpperCase()]}
              style={{ width: `${((rows[row]?.[id]?.durationMs ?? 0) / longest) * 100}%` }}
            />
          ))}
        </span>
      ),
    },
  ];
}
