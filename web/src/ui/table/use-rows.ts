/** Which rows of a long list are made: those in view and some beyond them, in blocks, so that few frames change any. */
import { useVirtualizer } from "@tanstack/react-virtual";
import type { RefObject } from "react";

import { elementsFor, type RowSlot, rowSlots } from "./row-slots.js";

export const rowPixels = 28;
/** Rows of a block. */
const blockRows = 10;
/** Higher than any window; on paper, where nothing scrolls, a list would make all its rows. */
const mostPixels = 4500;
/** Blocks beyond those in view, above and below. */
const overscan = 1;

interface RowsInView {
  readonly slots: readonly RowSlot[];
  /** Brings a row into view. */
  readonly scrollTo: (row: number) => void;
}

/** @param headPixels of what stays at the top, above the rows */
export function useRows(scroll: RefObject<HTMLElement | null>, rows: number, headPixels: number): RowsInView {
  const virtual = useVirtualizer({
    count: Math.ceil(rows / blockRows),
    getScrollElement: () => scroll.current,
    estimateSize: () => rowPixels * blockRows,
    overscan,
    useFlushSync: false,
  });
  const [first] = virtual.getVirtualItems();
  const blocks = elementsFor(Math.min(virtual.scrollRect?.height ?? 0, mostPixels), rowPixels * blockRows, overscan);
  return {
    // Always as many, so that no element is made or removed by scrolling.
    slots: rowSlots((first?.index ?? 0) * blockRows, blocks * blockRows, rows),
    scrollTo(row) {
      const host = scroll.current;
      if (host !== null) {
        const top = row * rowPixels;
        const least = top + rowPixels + headPixels - host.clientHeight;
        host.scrollTop = Math.max(least, Math.min(top, host.scrollTop));
      }
    },
  };
}
