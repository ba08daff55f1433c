import { type CellValue, cellText, columnReaders } from "../../values/arrow-values.js";
import type { ResultFormat } from "./format.js";

/**
 * CSV with a header line, quoted as RFC 4180 says. A null is an empty field and an empty text is `""`,
 * so that the two differ.
 * @param lineEnd LF for pipelines, or the RFC's CRLF
 */
export function csvFormat(lineEnd: "\n" | "\r\n"): ResultFormat {
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

function csvField(value: CellValue): string {
  const text = cellText(value);
  if (text === null) {
    return "";
  }
  return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
