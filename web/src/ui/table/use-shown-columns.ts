/** Which columns of a table are shown and how wide: those that were chosen, as far as there is room, or asked for. */
import {
  columnResizingFeature,
  columnSizingFeature,
  columnVisibilityFeature,
  type Header,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useEffect, useMemo, useRef, useState } from "react";

import { defaultWidth, fitColumns } from "./fit-columns.js";
import type { TableColumn } from "./table-columns.js";
import { type TableState, type TableStateChanges, writeTableState } from "./table-state.js";

/** Of the control that chooses columns, at the end of the head. */
const menuPixels = 30;
const leastWidth = 48;
const mostWidth = 2000;
const features = tableFeatures({ columnSizingFeature, columnResizingFeature, columnVisibilityFeature });
const noRows: never[] = [];

export type ColumnHeader = Header<typeof features, never>;

interface ShownColumns {
  readonly shown: readonly TableColumn[];
  readonly headers: readonly ColumnHeader[];
  /** Widths of the shown ones by id. */
  readonly fit: ReadonlyMap<string, number>;
  /** There is no room for some. */
  readonly isCut: boolean;
  /** Tracks of the grid of a row, on the screen and on paper. */
  readonly template: string;
  readonly shares: string;
  /** Pixels of them all. */
  readonly width: number;
  /** Makes a column wider by some pixels, or narrower. */
  readonly widen: (id: string, by: number) => void;
  readonly choose: (id: string, checked: boolean) => void;
  readonly reset: () => void;
}

export function useShownColumns(
  columns: readonly TableColumn[],
  room: number,
  state: TableState,
  change: (changes: TableStateChanges) => void,
): ShownColumns {
  const [sizing, setSizing] = useState<Readonly<Record<string, number>>>(state.widths);
  /** Columns that somebody wants to see although they do not fit. */
  const [asked, setAsked] = useState<readonly string[]>([]);

  const definitions = useMemo(
    () =>
      columns.map((column) => ({
        id: column.id,
        header: column.title,
        accessorFn: () => null,
        size: column.width ?? defaultWidth,
        minSize: leastWidth,
        maxSize: mostWidth,
      })),
    [columns],
  );
  const fit = useMemo(() => {
    const chosen = columns.filter(({ id }) => !state.hidden.includes(id));
    return fitColumns(chosen, room - menuPixels, sizing, asked);
  }, [columns, state.hidden, room, sizing, asked]);
  const hidden = columns.map(({ id }) => id).filter((id) => !fit.has(id));
  const table = useTable({
    features,
    columns: definitions,
    data: noRows,
    columnResizeMode: "onChange",
    state: { columnSizing: sizing, columnVisibility: Object.fromEntries(hidden.map((id) => [id, false])) },
    onColumnSizingChange: (next) => setSizing((before) => (typeof next === "function" ? next(before) : next)),
  });
  /** What the address holds, as far as this knows: what else it comes to hold came with Back or Forward. */
  const known = useRef(textOf(state.widths));
  useEffect(() => {
    const text = textOf(state.widths);
    if (text !== known.current) {
      known.current = text;
      setSizing(state.widths);
    }
  }, [state.widths]);
  // The address learns of a width when the hand has come to rest.
  useEffect(() => {
    if (sizing === state.widths) {
      return undefined;
    }
    const timer = setTimeout(() => {
      known.current = textOf(sizing);
      change({ widths: sizing });
    }, 300);
    return () => clearTimeout(timer);
  }, [sizing]);

  const shown = columns.filter(({ id }) => fit.has(id));
  const headers = table.getHeaderGroups()[0]?.headers ?? [];
  const sizes = headers.map((header) => fit.get(header.id) ?? header.getSize());
  // What is left over goes to the last column, or behind it where it is aligned to the right; there is room for the menu.
  const grows = shown.at(-1)?.align !== "right";
  const template = [
    ...sizes.map((size, at) => (grows && at === sizes.length - 1 ? `minmax(${size}px, 1fr)` : `${size}px`)),
    grows ? `${menuPixels}px` : `minmax(${menuPixels}px, 1fr)`,
  ].join(" ");
  return {
    shown,
    headers,
    fit,
    isCut: hidden.some((id) => !state.hidden.includes(id)),
    template,
    shares: [...sizes, menuPixels].map((size) => `minmax(0, ${size}fr)`).join(" "),
    width: sizes.reduce((sum, size) => sum + size, menuPixels),
    widen: (id, by) => {
      const pixels = (fit.get(id) ?? defaultWidth) + by;
      setSizing((before) => ({ ...before, [id]: Math.min(mostWidth, Math.max(leastWidth, pixels)) }));
    },
    choose: (id, checked) => {
      const chosen = (names: readonly string[], wanted: boolean): string[] =>
        names.filter((each) => each !== id).concat(wanted ? [id] : []);
      setAsked((before) => chosen(before, checked));
      change(({ hidden: before }) => ({ hidden: chosen(before, !checked) }));
    },
    reset: () => {
      known.current = textOf({});
      setSizing({});
      setAsked([]);
      change({ hidden: [], widths: {}, sort: null });
    },
  };
}

function textOf(widths: TableState["widths"]): string {
  return writeTableState({ widths }).widths ?? "";
}
