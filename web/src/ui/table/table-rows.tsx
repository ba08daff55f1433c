/** The rows of a table that are in view. */
import { memo, type ReactElement, type RefObject } from "react";

import { classes } from "../controls/controls.js";
import { nothing, oneLine } from "../format.js";
import css from "./data-table.module.css";
import { PrintedRows } from "./printed-rows.js";
import type { TableColumn } from "./table-columns.js";
import { rowPixels, useRows } from "./use-rows.js";

export interface Cell {
  /** Place in the order shown. */
  readonly at: number;
  readonly column: number;
}

interface RowsProps {
  readonly id: string;
  readonly scroll: RefObject<HTMLDivElement | null>;
  /** Gets what brings a row into view. */
  readonly scrollTo: RefObject<(at: number) => void>;
  readonly rows: number;
  readonly order: ArrayLike<number> | null;
  readonly columns: readonly TableColumn[];
  /** Changes with the columns that are shown. */
  readonly fit: ReadonlyMap<string, number>;
  /** What `columns` was made of, which is made anew by each rendering. */
  readonly source: readonly TableColumn[];
  readonly version: unknown;
  readonly template: string;
  readonly selected: number | null;
  readonly active: Cell;
  readonly onPoint: (at: number, column: number) => void;
}

/** Those in view. Scrolling makes them again, and nothing else of the table. */
export function Rows(o: RowsProps): ReactElement {
  const { slots, scrollTo } = useRows(o.scroll, o.rows, rowPixels + 1);
  o.scrollTo.current = scrollTo;
  return (
    <>
      {slots.map(({ slot, at }) => {
        const row = o.order?.[at] ?? at;
        return (
          <Row
            key={slot}
            id={o.id}
            at={at}
            row={row}
            columns={o.columns}
            fit={o.fit}
            source={o.source}
            version={o.version}
            template={o.template}
            selected={row === o.selected}
            activeColumn={at === o.active.at ? o.active.column : -1}
            onPoint={(column) => o.onPoint(at, column)}
          />
        );
      })}
      <PrintedRows made={slots.length} rows={o.rows} />
    </>
  );
}

type RowProps = Pick<RowsProps, "id" | "columns" | "fit" | "source" | "version" | "template"> & {
  readonly at: number;
  readonly row: number;
  readonly selected: boolean;
  readonly activeColumn: number;
  readonly onPoint: (column: number) => void;
};

/** Made again only when something in it changed: scrolling moves the others alone. */
const Row = memo(
  function Row(o: RowProps): ReactElement {
    return (
      <div
        className={css.row}
        role="row"
        aria-rowindex={o.at + 2}
        aria-selected={o.selected}
        style={{
          gridTemplateColumns: o.template,
          transform: `translateY(${o.at * rowPixels + rowPixels + 1}px)`,
          order: o.at,
        }}
      >
        {o.columns.map((column, at) => {
          const whole = column.text(o.row);
          const isBrief = (o.fit.get(column.id) ?? Infinity) < (column.width ?? 0);
          const text = isBrief && whole !== null ? (column.brief?.text(whole) ?? whole) : whole;
          return (
            <div
              key={column.id}
              // No other has one, so that scrolling changes none.
              id={at === o.activeColumn ? `${o.id}-active` : undefined}
              role="gridcell"
              className={classes(
                css.cell,
                column.align === "right" && css.right,
                column.mono === true && css.mono,
                text === null && css.none,
              )}
              data-active={at === o.activeColumn}
              onMouseMove={({ currentTarget }) => {
                // Made when it is pointed at: most cells only pass by. The element may have held another row before.
                currentTarget.title = (column.hint ?? column.text)(o.row) ?? "";
              }}
              onClick={() => o.onPoint(at)}
            >
              {column.cell?.(o.row) ?? (text === null ? nothing : oneLine(text))}
            </div>
          );
        })}
      </div>
    );
  },
  (before, after) =>
    before.row === after.row &&
    before.at === after.at &&
    before.source === after.source &&
    before.fit === after.fit &&
    before.version === after.version &&
    before.template === after.template &&
    before.selected === after.selected &&
    before.activeColumn === after.activeColumn,
);
