import { escapeControls } from "../../shared/escape-controls.js";
import { cellText, columnReaders } from "../../values/arrow-values.js";
import type { ResultFormat } from "./format.js";
import { textWidth } from "./text-width.js";

/** One line per value, for rows that are wider than a terminal. Nothing is cut. */
export function expandedFormat(): ResultFormat {
  let names: string[] = [];
  let row = 0;
  return {
    begin(schema) {
      const titles = schema.fields.map(({ name }) => escapeControls(name));
      const width = Math.max(0, ...titles.map(textWidth));
      names = titles.map((title) => title + " ".repeat(width - textWidth(title)));
      return "";
    },
    batch(batch) {
      const readers = columnReaders(batch);
      let out = "";
      for (let at = 0; at < batch.numRows; at++) {
        row++;
        const lines = readers.map((read, i) => `${names[i] ?? ""} │ ${escapeControls(cellText(read(at)) ?? "NULL")}`);
        out += `─ row ${row} ─\n${lines.map((line) => `${line}\n`).join("")}`;
      }
      return out;
    },
    end: () => "",
  };
}
