import { escapeControls } from "../../shared/escape-controls.js";
import { type CellValue, cellText, columnReaders } from "../../values/arrow-values.js";
import type { ResultFormat } from "./format.js";

/**
 * CSV with a header line, quoted as RFC 4180 says. A null is an empty field and an empty text is `""`,
 * so that the two differ. Programs read it: what a spreadsheet would take for a formula stays as it is, too.
 * @param lineEnd LF for pipelines, or the RFC's CRLF
 * @param terminal whether a terminal shows it, which would do what control characters say: they are escaped
 */
export function csvFormat(lineEnd: "\n" | "\r\n", terminal = false): ResultFormat {
  const csvField = (value: CellValue): string => {
    const text = cellText(value);
    if (text === null) {
      return "";
    }
    const shown = terminal ? escapeControls(text) : text;
    return shown === "" || /[",\r\n]/.test(shown) ? `"${shown.replaceAll('"', '""')}"` : shown;
  };
  return {
    begin: (schema) => `${schema.fields.map((field) => csvField(field.name)).join(",")}${lineEnd}`,
    batch(batch) {
      const readers = columnReaders(batch);
      let out = "";
      for (let row = 0; row < batch.numRows; row++) {
        out += `${readers.map((read) => csvField(read(row))).join(",")}${lineEnd}`;
      }
      return out;
    },
    end: () => "",
  };
}
