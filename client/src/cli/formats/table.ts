import { DataType, type Field } from "apache-arrow";

import { escapeControls } from "../../shared/escape-controls.js";
import { cellText, columnReaders } from "../../values/arrow-values.js";
import type { ResultFormat } from "./format.js";
import { type Grid, type GridColumn, layOut } from "./grid.js";

/** Rows looked at before the first line is printed; a wider value further down shifts its own line. */
const sampledRows = 1000;
/** Enough of them when they hold so much text: they are kept, and printed as one string. */
const sampledCharacters = 1024 * 1024;
const nullText = "NULL";

/**
 * An aligned table. Control characters are escaped. Widths come from the first 1000 rows, or
 * fewer where these are long, so a long result needs bounded memory and starts early.
 * @param terminalColumns width of the terminal, or null when the output is no terminal: then no cell
 *   is ever cut, and one wider than 200 shifts its own line. On a terminal the widest text columns shrink until the table fits.
 */
export function tableFormat(terminalColumns: number | null): ResultFormat {
  let columns: readonly GridColumn[] = [];
  let sample: string[][] = [];
  let sampled = 0;
  let grid: Grid | null = null;

  const print = (rows: readonly (readonly string[])[], { line }: Grid): string =>
    rows.map((row) => `${line(row)}\n`).join("");

  const printSample = (): string => {
    if (grid !== null) {
      return "";
    }
    grid = layOut(columns, sample, terminalColumns);
    const rows = print(sample, grid);
    sample = [];
    return `${grid.head}\n${rows}`;
  };

  return {
    begin(schema) {
      columns = schema.fields.map(columnOf);
      return "";
    },
    batch(batch) {
      const readers = columnReaders(batch);
      let out = "";
      for (let row = 0; row < batch.numRows; row++) {
        const cells = readers.map((read) => escapeControls(cellText(read(row)) ?? nullText));
        if (grid !== null) {
          out += print([cells], grid);
          continue;
        }
        sample.push(cells);
        sampled += cells.reduce((sum, cell) => sum + cell.length, 0);
        if (sample.length === sampledRows || sampled >= sampledCharacters) {
          out += printSample();
        }
      }
      return out;
    },
    end: printSample,
  };
}

/** A cut number or time would be a wrong one; what a cut text leaves out is seen to be missing. */
function columnOf({ name, type }: Field): GridColumn {
  const right = DataType.isInt(type) || DataType.isFloat(type) || DataType.isDecimal(type);
  return { title: escapeControls(name), right, shrinks: !right && !DataType.isTimestamp(type) };
}
