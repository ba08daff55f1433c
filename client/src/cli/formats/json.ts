import { escapeControlsOfJson } from "../../shared/escape-controls.js";
import { cellJson, columnReaders, uniqueNames } from "../../values/arrow-values.js";
import type { ResultFormat } from "./format.js";

/**
 * JSON Lines: one object per row and line, so that a long result can be read as it comes. 64-bit
 * integers are numbers with all digits; columns that share a name get `_2`, `_3`.
 */
export function jsonFormat(): ResultFormat {
  let names: string[] = [];
  return {
    begin(schema) {
      names = uniqueNames(schema).map((name) => JSON.stringify(name));
      return "";
    },
    batch(batch) {
      const readers = columnReaders(batch);
      let out = "";
      for (let row = 0; row < batch.numRows; row++) {
        const fields = readers.map((read, column) => `${names[column] ?? '""'}:${cellJson(read(row))}`);
        out += `${escapeControlsOfJson(`{${fields.join(",")}}`)}\n`;
      }
      return out;
    },
    end: () => "",
  };
}
