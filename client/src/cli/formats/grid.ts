/** Texts in aligned columns. */
import { textWidth, truncate } from "./text-width.js";

/** A column as it is laid out. */
export interface GridColumn {
  readonly title: string;
  /** Aligned to the right, as numbers are. */
  readonly right?: boolean;
  /** May be cut where the terminal is too narrow; never what somebody has to copy. */
  readonly shrinks?: boolean;
}

/** A table of one row per line. */
export interface Grid {
  /** Titles and a rule, without a line break at the end. */
  readonly head: string;
  /** One row, without a line break. A text wider than its column shifts what follows it. */
  readonly line: (texts: readonly string[]) => string;
}

const separator = " │ ";
const minShrunkWidth = 6;
/** Where nothing is cut: one text of a megabyte would pad a thousand lines to a gigabyte. */
const maxPaddedWidth = 200;

/**
 * Makes columns as wide as their titles and a sample of the rows.
 * @param terminalColumns width of the terminal, or null when nothing is to be cut: then no column is wider than 200. On
 *   a terminal the widest of the columns that may shrink do so until the table fits.
 */
export function layOut(
  columns: readonly GridColumn[],
  sample: readonly (readonly string[])[],
  terminalColumns: number | null,
): Grid {
  const wanted = columns.map(({ title }, i) =>
    sample.reduce((width, row) => Math.max(width, textWidth(row[i] ?? "")), textWidth(title)),
  );
  const shrinkable = columns.map(({ shrinks }) => shrinks === true);
  const widths =
    terminalColumns === null
      ? wanted.map((width) => Math.min(width, maxPaddedWidth))
      : fitWidths(wanted, shrinkable, terminalColumns);
  const line = (texts: readonly string[]): string =>
    columns
      .map((column, i) => {
        const width = widths[i] ?? 0;
        const text = texts[i] ?? "";
        const cut = terminalColumns !== null && column.shrinks === true;
        const shown = cut ? truncate(text, Math.max(width, 1)) : text;
        const missing = " ".repeat(Math.max(0, width - textWidth(shown)));
        return column.right === true ? missing + shown : shown + missing;
      })
      .join(separator)
      .trimEnd();
  const rule = widths.map((width) => "─".repeat(width)).join("─┼─");
  return { head: `${line(columns.map(({ title }) => title))}\n${rule}`, line };
}

/**
 * Shrinks the widest of the columns that may shrink, never below a few characters, until the row fits
 * into `columns`; where that is not enough, the terminal wraps it.
 */
export function fitWidths(widths: readonly number[], shrinkable: readonly boolean[], columns: number): number[] {
  const fixed = widths.filter((_, i) => shrinkable[i] !== true);
  const sorted = widths.filter((_, i) => shrinkable[i] === true).sort((a, b) => a - b);
  const separators = separator.length * (widths.length - 1);
  let left = columns - separators - fixed.reduce((sum, width) => sum + width, 0);
  // The greatest cap under which all of them fit; narrow ones keep their width and leave room.
  let cap = Number.POSITIVE_INFINITY;
  for (const [index, width] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - index));
    if (width > share) {
      cap = Math.max(minShrunkWidth, share);
      break;
    }
    left -= width;
  }
  return widths.map((width, i) => (shrinkable[i] === true ? Math.min(width, cap) : width));
}
