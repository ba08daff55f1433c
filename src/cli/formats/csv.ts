import { type CellValue, cellText, columnReaders } from "../../client/arrow-values.js";
import type { ResultFormat } from "./format.js";

/**
 * CSV of RFC 4180 with a header line and CRLF. A null is an empty field and an empty text is `""`,
 * so that the two differ.
 */
export function csvFormat(): ResultFormat {
  return {
    begin: (schema) => `${schema.fields.map((field) => csvField(field.name)).join(",")}\r\n`,
    batch(batch) {
      const readers = columnReaders(batch);
      let out = "";
      for (let row = 0; row < batch.numRows; row++) {
        out += `${readers.map((read) => csvField(read(row))).join(",")}\r\n`;
      }
      return out;
    },
    end: () => "",
  };
}

function csvField(value: CellValue): string {
  const text = cellText(value);
  if (text === null) return "";
  return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
