import { DataType, type Field } from "apache-arrow";

import { cellText, columnReaders } from "../../client/arrow-values.js";
import { escapeControls, textWidth, truncate } from "./text-width.js";
import type { ResultFormat } from "./format.js";

/** Rows looked at before the first line is printed; a wider value further down shifts its own line. */
const sampledRows = 1000;
const minShrunkWidth = 6;
const separator = " │ ";
const nullText = "NULL";

/**
 * An aligned table. Control characters are escaped. Widths come from the first 1000 rows, so a long
 * result needs bounded memory and starts early.
 * @param terminalColumns width of the terminal, or null when the output is no terminal: then no cell
 *   is ever cut. On a terminal the widest text columns shrink until the table fits.
 */
export function tableFormat(terminalColumns: number | null): ResultFormat {
  let fields: readonly Field[] = [];
  let names: string[] = [];
  let widths: number[] = [];
  let sample: (string | null)[][] | null = [];

  const line = (row: readonly (string | null)[]): string =>
    row
      .map((cell, i) => pad(cell ?? nullText, widths[i] ?? 0, fields[i]))
      .join(separator)
      .trimEnd();

  const flushSample = (): string => {
    if (sample === null) return "";
    const rows = sample;
    sample = null;
    for (const row of rows) {
      row.forEach((cell, i) => {
        widths[i] = Math.max(widths[i] ?? 0, textWidth(cell ?? nullText));
      });
    }
    if (terminalColumns !== null) {
      widths = fitWidths(widths, fields.map(mayShrink), terminalColumns);
    }
    const rule = widths.map((width) => "─".repeat(width)).join("─┼─");
    return `${[line(names), rule, ...rows.map(line)].join("\n")}\n`;
  };

  return {
    begin(schema) {
      fields = schema.fields;
      names = fields.map((field) => escapeControls(field.name));
      widths = names.map(textWidth);
      return "";
    },
    batch(batch) {
      const readers = columnReaders(batch);
      let out = "";
      for (let row = 0; row < batch.numRows; row++) {
        const cells = readers.map((read) => {
          const text = cellText(read(row));
          return text === null ? null : escapeControls(text);
        });
        if (sample === null) {
          out += `${line(cells)}\n`;
        } else {
          sample.push(cells);
          if (sample.length === sampledRows) out += flushSample();
        }
      }
      return out;
    },
    end: flushSample,
  };

  function pad(text: string, width: number, field: Field | undefined): string {
    const cut = terminalColumns !== null && field !== undefined && mayShrink(field);
    const shown = cut ? truncate(text, Math.max(width, 1)) : text;
    const missing = " ".repeat(Math.max(0, width - textWidth(shown)));
    return rightAligned(field) ? missing + shown : shown + missing;
  }
}

function rightAligned(field: Field | undefined): boolean {
  if (field === undefined) return false;
  return (
    DataType.isInt(field.type) || DataType.isFloat(field.type) || DataType.isDecimal(field.type)
  );
}

/** A cut number or time would be a wrong one; what a cut text leaves out is seen to be missing. */
function mayShrink(field: Field): boolean {
  return !rightAligned(field) && !DataType.isTimestamp(field.type);
}

/**
 * Shrinks the widest of the columns that may shrink, never below a few characters, until the row fits
 * into `columns`; where that is not enough, the terminal wraps it.
 */
export function fitWidths(
  widths: readonly number[],
  shrinkable: readonly boolean[],
  columns: number,
): number[] {
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
