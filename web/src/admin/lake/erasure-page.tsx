/** Erasure: rows that have something in common go for good. Maintenance does it; this page asks and watches. */
import { Eraser } from "lucide-react";
import type { ReactElement } from "react";

import type { Erasure } from "../../api/wire.js";
import { formatNumber } from "../../ui/format.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import { useList } from "../api.js";
import { Facts, ListPage, numberColumn, textColumn } from "../list-page.js";
import { ErasureForm } from "./erasure-form.js";
import { betweenWords, boundText, whereWords } from "./erasures.js";
import { askedColumns, everyMs, stateColumn, TaskState, TaskTimes } from "./tasks.js";

const idOf = ({ erasure_id: id }: Erasure): string => id;
const boundsOf = ({ begin, end }: Erasure): string => betweenWords(boundText(begin), boundText(end));

function columnsOf(rows: readonly Erasure[]): readonly TableColumn[] {
  return [
    textColumn(rows, "where", "Rows of", ({ where }) => whereWords(where), { width: 260 }),
    stateColumn(rows),
    numberColumn(rows, "rows_removed", "Rows removed", (row) => row.rows_removed),
    textColumn(rows, "audience", "Audience", ({ audience }) => audience, { width: 130 }),
    textColumn(rows, "between", "Time", boundsOf, { width: 220 }),
    ...askedColumns(rows),
  ];
}

export default function ErasurePage(): ReactElement {
  const query = useList<Erasure>(["erasures"], "api/erasures", { every: everyMs });
  return (
    <ListPage
      noun="erasures"
      intro="Deletes the rows of an audience that have something in common, wherever they are stored. Administrators may ask for it. The audit says who did and by what kind of condition, never by which value; the list below keeps the value."
      query={query}
      idOf={idOf}
      columns={columnsOf}
      empty={{
        icon: <Eraser />,
        title: "Nothing was erased",
        text: "Ask for an erasure when rows of somebody or something have to go. Retention is what removes rows for their age.",
      }}
      add={{ label: "Erase rows", title: "Erase rows", form: (close) => <ErasureForm onCancel={close} /> }}
      panel={(row) => ({
        title: `Erasure of ${whereWords(row.where)}`,
        body: <ErasureDetails row={row} />,
      })}
    />
  );
}

function ErasureDetails({ row }: { readonly row: Erasure }): ReactElement {
  return (
    <>
      <TaskState task={row} />
      <Facts
        facts={[
          ["Audience", row.audience],
          ["Rows of", whereWords(row.where)],
          ["Time", boundsOf(row)],
          ["Rows removed", formatNumber(row.rows_removed)],
          ["Objects", `${formatNumber(row.objects_rewritten)} rewritten, ${formatNumber(row.objects_removed)} removed`],
        ]}
      />
      <TaskTimes task={row} />
      <Facts facts={[["Erasure id", <code key="id">{row.erasure_id}</code>]]} />
    </>
  );
}
