/** What paper says below a long list, of which it has the rows that were made. */
import type { ReactElement } from "react";

import { formatNumber } from "../format.js";

export function PrintedRows({ made, rows }: { readonly made: number; readonly rows: number }): ReactElement | null {
  return made >= rows ? null : (
    <p
      className="printed"
      style={{ order: rows }}
      data-says={`Printed are rows in view, of ${formatNumber(rows)} rows.`}
      aria-hidden
    />
  );
}
