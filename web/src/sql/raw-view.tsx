/** A result as text. */
import type { ReactElement } from "react";

import type { QueryResult } from "../api/query.js";
import { formatNumber } from "../ui/format.js";
import { jsonLines } from "./download.js";
import css from "./sql-page.module.css";

const mostRows = 500;

/** One JSON object a line; of a plan, the plan as it is. */
export function RawView({ result }: { readonly result: QueryResult }): ReactElement {
  const { columns, rows } = result;
  const shown = Math.min(rows, mostRows);
  const isPlan = columns.some(({ name }) => name === "explain_value" || name === "explain_key");
  const last = columns.at(-1);
  const lineOf = isPlan && last !== undefined ? (row: number) => last.text(row) : jsonLines(columns);
  const lines = Array.from({ length: shown }, (_, row) => lineOf(row));
  return (
    <div className={css.raw} tabIndex={0} role="region" aria-label="Result as text">
      <pre>{lines.join("\n")}</pre>
      {shown < rows ? (
        <p className={css.more}>
          These are the first {formatNumber(shown)} of {formatNumber(rows)} rows. A download has all of them.
        </p>
      ) : null}
    </div>
  );
}
