/** Which rows a list shows, and in which of its elements. */
export interface RowSlot {
  /** Of the element: the same one holds it for as long as it is shown. */
  readonly slot: number;
  /** Place of the row in the list. */
  readonly at: number;
}

/**
 * Rows from `first` on, always as many as `elements` (or all): a row that leaves at one end gives its element to the one
 * that comes in at the other, so that scrolling makes, removes and moves no element.
 */
export function rowSlots(first: number, elements: number, rows: number): readonly RowSlot[] {
  const count = Math.min(rows, elements);
  const begin = Math.max(0, Math.min(first, rows - count));
  return Array.from({ length: count }, (_, slot) => ({ slot, at: begin + ((slot - (begin % count) + count) % count) }));
}

/** Elements for a list of this height: those in view, of which the outer two may be cut, and some beyond them at both ends. */
export function elementsFor(height: number, rowPixels: number, overscan: number): number {
  return Math.ceil(height / rowPixels) + 2 * overscan + 1;
}
