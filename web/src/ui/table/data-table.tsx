/**
 * A table of any number of rows, of which only those in view are made. J and K (or the arrows) move, Enter opens, F
 * filters by the cell, X excludes it, C copies it, + and - change the width of its column. Rows are numbers; columns say
 * what is in them.
 */
import { ArrowDown, ArrowUp, Columns3 } from "lucide-react";
import {
  type KeyboardEvent,
  type ReactElement,
  type RefObject,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";

import { useSettings } from "../../app/settings.js";
import { Button, classes, Menu, MenuCheck, MenuItem } from "../controls/controls.js";
import { copyText } from "../controls/copy-and-save.js";
import { pressKey } from "../controls/keys.js";
import css from "./data-table.module.css";
import { sortRows } from "./sort-rows.js";
import type { TableColumn } from "./table-columns.js";
import { changesOf, noTableState, type TableState, type TableStateChanges } from "./table-state.js";
import { type Cell, Rows } from "./table-rows.js";
import { rowPixels } from "./use-rows.js";
import { type ColumnHeader, useShownColumns } from "./use-shown-columns.js";

interface DataTableProps {
  /** What is in it, for those who do not see it. */
  readonly label: string;
  readonly columns: readonly TableColumn[];
  readonly rows: number;
  /** Grows when rows of the same number hold something else, so that they are sorted again. */
  readonly version?: unknown;
  /** See useTableState; left out: it is forgotten with the table. */
  readonly state?: TableState;
  readonly onState?: (changes: TableStateChanges) => void;
  /** The row whose panel is open. */
  readonly selected?: number | null;
  readonly onSelect?: (row: number | null) => void;
  /** F and X, and what a page offers beside them. */
  readonly onFilter?: (column: TableColumn, value: string | null, exclude: boolean) => void;
  /** Dimmed: the rows are those of before. */
  readonly stale?: boolean;
}

/** Pixels that + and - make a column wider and narrower. */
const widthStep = 20;

export function DataTable(o: DataTableProps): ReactElement {
  const { columns, rows, selected = null } = o;
  const { timeZone } = useSettings();
  const version = useMemo(() => ({ of: o.version, timeZone }), [o.version, timeZone]);
  const [own, setOwn] = useState(noTableState);
  const state = o.state ?? own;
  const change =
    o.onState ??
    ((changes: TableStateChanges) => setOwn((before) => ({ ...before, ...changesOf(changes, () => before) })));
  const id = useId();
  const scroll = useRef<HTMLDivElement | null>(null);
  const [chosen, setActive] = useState<Cell>({ at: 0, column: 0 });
  const size = useSize(scroll);
  const { fit, shown, headers, isCut, ...shape } = useShownColumns(columns, size.width, state, change);

  const order = useMemo(() => {
    const by = columns.find(({ id: name }) => name === state.sort?.id)?.sortBy;
    return by === undefined || state.sort === null ? null : sortRows(rows, by, state.sort.descending);
  }, [columns, rows, version, state.sort]);
  const rowAt = (at: number): number => order?.[at] ?? at;
  /** Rows and columns may have become fewer. */
  const active = {
    at: Math.max(0, Math.min(chosen.at, rows - 1)),
    column: Math.max(0, Math.min(chosen.column, shown.length - 1)),
  };

  const scrollTo = useRef<(at: number) => void>(() => undefined);

  const move = (rowsBy: number, columnsBy: number): void => {
    const at = Math.min(rows - 1, Math.max(0, active.at + rowsBy));
    const column = Math.min(shown.length - 1, Math.max(0, active.column + columnsBy));
    setActive({ at, column });
    scrollTo.current(at);
    if (selected !== null && rowsBy !== 0) {
      o.onSelect?.(rowAt(at));
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    if (rows === 0 || event.target !== event.currentTarget) {
      return;
    }
    const column = shown[active.column];
    const row = rowAt(active.at);
    const page = Math.max(1, Math.floor((scroll.current?.clientHeight ?? 300) / rowPixels) - 2);
    pressKey(event, {
      j: () => move(1, 0),
      k: () => move(-1, 0),
      ArrowDown: () => move(1, 0),
      ArrowUp: () => move(-1, 0),
      ArrowRight: () => move(0, 1),
      ArrowLeft: () => move(0, -1),
      PageDown: () => move(page, 0),
      PageUp: () => move(-page, 0),
      Home: () => move(-rows, 0),
      End: () => move(rows, 0),
      Enter: () => o.onSelect?.(selected === row ? null : row),
      Escape: () => o.onSelect?.(null),
      f: () => column !== undefined && o.onFilter?.(column, valueOf(column, row), false),
      x: () => column !== undefined && o.onFilter?.(column, valueOf(column, row), true),
      s: () => column?.sortBy !== undefined && change(({ sort: before }) => ({ sort: nextSort(column.id, before) })),
      "+": () => column !== undefined && shape.widen(column.id, widthStep),
      "-": () => column !== undefined && shape.widen(column.id, -widthStep),
      c: () => column !== undefined && void copyText(column.text(row) ?? ""),
    });
  };

  return (
    <div className={classes(css.frame, o.stale === true && css.stale)} aria-busy={o.stale === true}>
      <div
        ref={scroll}
        className={css.scroll}
        role="grid"
        aria-label={o.label}
        aria-description={keyWords(o)}
        aria-rowcount={rows + 1}
        aria-colcount={shown.length}
        aria-activedescendant={rows > 0 ? `${id}-active` : undefined}
        tabIndex={0}
        onKeyDown={onKey}
      >
        <div
          className={css.inner}
          style={{
            width: `max(100%, ${shape.width}px)`,
            height: (rows + 1) * rowPixels + 1,
            ["--shares" as string]: shape.shares,
          }}
        >
          <div
            className={css.head}
            role="row"
            aria-rowindex={1}
            style={{ gridTemplateColumns: shape.template, order: -1 }}
          >
            {headers.map((header, at) => {
              const column = shown[at];
              const sort = state.sort?.id === header.id ? state.sort : null;
              return column === undefined ? null : (
                <HeadCell
                  key={header.id}
                  column={column}
                  header={header}
                  sort={sort}
                  onSort={(next) => change({ sort: next })}
                />
              );
            })}
          </div>
          <Rows
            id={id}
            scroll={scroll}
            scrollTo={scrollTo}
            rows={rows}
            order={order}
            columns={shown}
            fit={fit}
            source={columns}
            version={version}
            template={shape.template}
            selected={selected}
            active={active}
            onPoint={(at, column) => {
              const row = rowAt(at);
              setActive({ at, column });
              o.onSelect?.(row === selected ? null : row);
            }}
          />
        </div>
      </div>
      <div className={classes(css.columns, isCut && css.cut)} style={{ right: size.bar }}>
        <ColumnMenu columns={columns} fit={fit} onChange={shape.choose} onReset={shape.reset} />
      </div>
    </div>
  );
}

/** The name of a column, which sorts, and the grip that makes it wider. */
function HeadCell({
  column,
  header,
  sort,
  onSort,
}: {
  readonly column: TableColumn;
  readonly header: ColumnHeader;
  readonly sort: TableState["sort"];
  readonly onSort: (sort: TableState["sort"]) => void;
}): ReactElement {
  return (
    <div
      className={css.headCell}
      role="columnheader"
      aria-sort={sort === null ? "none" : sort.descending ? "descending" : "ascending"}
    >
      <button
        type="button"
        tabIndex={-1}
        className={classes(css.headButton, column.align === "right" && css.right)}
        disabled={column.sortBy === undefined}
        title={column.title}
        onClick={() => onSort(nextSort(column.id, sort))}
      >
        <span>{column.title}</span>
        {sort === null ? null : sort.descending ? <ArrowDown aria-hidden /> : <ArrowUp aria-hidden />}
      </button>
      <div
        className={css.grip}
        data-resizing={header.column.getIsResizing()}
        onPointerDown={(event) => event.stopPropagation()}
        onMouseDown={header.getResizeHandler()}
        onTouchStart={header.getResizeHandler()}
        onDoubleClick={() => header.column.resetSize()}
      />
    </div>
  );
}

/** Which columns are shown. */
function ColumnMenu({
  columns,
  fit,
  onChange,
  onReset,
}: {
  readonly columns: readonly TableColumn[];
  /** Those that are shown. */
  readonly fit: ReadonlyMap<string, number>;
  readonly onChange: (name: string, checked: boolean) => void;
  readonly onReset: () => void;
}): ReactElement {
  return (
    <Menu
      trigger={
        <Button look="quiet" aria-label="Columns" title="Columns">
          <Columns3 />
        </Button>
      }
    >
      {columns.map(({ id, title }) => (
        <MenuCheck key={id} checked={fit.has(id)} onChange={(checked) => onChange(id, checked)}>
          {title}
        </MenuCheck>
      ))}
      <MenuItem onClick={onReset}>All as it was</MenuItem>
    </Menu>
  );
}

/** Pixels of an element inside its scroll bar, and of the bar. */
function useSize(element: RefObject<HTMLElement | null>): { readonly width: number; readonly bar: number } {
  const [size, setSize] = useState({ width: Infinity, bar: 0 });
  useLayoutEffect(() => {
    const found = element.current;
    if (found === null) {
      return undefined;
    }
    const measure = (): void => {
      const { clientWidth: width, offsetWidth } = found;
      setSize((before) => (before.width === width ? before : { width, bar: offsetWidth - width }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(found);
    return () => observer.disconnect();
  }, [element]);
  return size;
}

/** What keys do, for who cannot point. */
function keyWords({ onSelect, onFilter }: Pick<DataTableProps, "onSelect" | "onFilter">): string {
  const opens = onSelect === undefined ? "" : ", Enter opens";
  const filters = onFilter === undefined ? "" : ", F filters by the cell, X excludes it";
  return `Arrows, J and K move${opens}${filters}, S sorts by the column, + and - change its width, C copies the cell.`;
}

function valueOf(column: TableColumn, row: number): string | null {
  return (column.filterValue ?? column.text)(row);
}

/** Up, down, as it came. */
function nextSort(id: string, before: TableState["sort"]): TableState["sort"] {
  return before === null ? { id, descending: false } : before.descending ? null : { id, descending: true };
}
