/** Checks of the lake: the catalogue against the objects, and what a repair did. */
import { Stethoscope } from "lucide-react";
import { type ReactElement, useState } from "react";

import { call } from "../../api/call.js";
import type { LakeCheck, LakeCheckId } from "../../api/wire.js";
import { useChangeSearch } from "../../app/search.js";
import { Checkbox } from "../../ui/controls/controls.js";
import { formatCount, formatNumber } from "../../ui/format.js";
import { Banner } from "../../ui/states.js";
import { toast } from "../../ui/toast.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { useInvalidate, useList, useTask } from "../api.js";
import { ConfirmDialog, Form } from "../form.js";
import { Facts, ListPage, numberColumn, textColumn } from "../list-page.js";
import { type LakeReport, outcomeWords, problemCount, type ProblemKind, problemWords } from "./checks.js";
import { askedColumns, everyMs, stateColumn, TaskState, TaskTimes } from "./tasks.js";

const idOf = ({ check_id: id }: LakeCheck): string => id;
const kindOf = ({ deep, repair }: LakeCheck): string =>
  `${deep ? "every value" : "footers"}${repair ? ", with repair" : ""}`;

function columnsOf(rows: readonly LakeCheck[]): readonly TableColumn[] {
  return [
    textColumn(rows, "kind", "Reads", kindOf, { width: 170 }),
    stateColumn(rows),
    textColumn(rows, "outcome", "Outcome", outcomeWords, { width: 180 }),
    numberColumn(rows, "objects", "Objects", ({ report }) => report?.counts.objects ?? null),
    numberColumn(rows, "rows", "Rows", ({ report }) => report?.counts.rows ?? null),
    ...askedColumns(rows),
  ];
}

export default function ChecksPage(): ReactElement {
  const query = useList<LakeCheck>(["lake-checks"], "api/lake-checks", { every: everyMs });
  return (
    <ListPage
      noun="checks"
      intro="A check compares the catalogue with the objects of the store: whether each is there, whole, and named by something. Administrators may ask for it."
      query={query}
      idOf={idOf}
      columns={columnsOf}
      empty={{
        icon: <Stethoscope />,
        title: "No check yet",
        text: "Check after a restore from a backup, a full disk or a machine that died, or when queries say that an object is missing.",
      }}
      add={{ label: "Check the lake", title: "Check the lake", form: (close) => <CheckForm onCancel={close} /> }}
      panel={(row) => ({ title: "Check", body: <CheckDetails row={row} /> })}
    />
  );
}

function CheckForm({ onCancel }: { readonly onCancel: () => void }): ReactElement {
  const [deep, setDeep] = useState(false);
  const [repair, setRepair] = useState(false);
  const [asking, setAsking] = useState(false);
  const change = useChangeSearch();
  const invalidate = useInvalidate();
  const task = useTask(async () => {
    const { check_id: id } = await call<LakeCheckId>("api/lake-checks", { method: "POST", body: { deep, repair } });
    await invalidate("lake-checks");
    toast("The check is asked for");
    return () => change({ new: undefined, open: id });
  });
  return (
    <>
      <Form
        label="Check the lake"
        submit={repair ? "Check and repair…" : "Check"}
        busy={task.busy}
        error={asking ? null : task.error}
        onCancel={onCancel}
        onSubmit={() => (repair ? setAsking(true) : task.run())}
      >
        <Checkbox
          label="Read every value, not the footers alone. It takes as long as reading everything stored."
          checked={deep}
          onChange={({ target }) => setDeep(target.checked)}
        />
        <Checkbox
          label="Repair what can be repaired"
          checked={repair}
          onChange={({ target }) => setRepair(target.checked)}
        />
      </Form>
      <ConfirmDialog
        open={asking}
        title="Check the lake and repair it?"
        confirm="Check and repair"
        task={task}
        onClose={() => setAsking(false)}
      >
        <p>
          What the catalogue names and cannot be read is taken out of it, and queries go on without its rows. It is put
          back by a later repair when its object is back.
        </p>
        <p>Objects that nothing names for over an hour are removed from the store.</p>
      </ConfirmDialog>
    </>
  );
}

function CheckDetails({ row }: { readonly row: LakeCheck }): ReactElement {
  return (
    <>
      <TaskState task={row} />
      {row.report === null ? null : <Report report={row.report} />}
      <Facts
        facts={[
          ["Reads", row.deep ? "every value" : "the footers of objects"],
          ["Repair", row.repair ? "what can be repaired" : "nothing"],
        ]}
      />
      <TaskTimes task={row} />
    </>
  );
}

function Report({ report }: { readonly report: LakeReport }): ReactElement {
  const { counts, problems, notes } = report;
  const count = problemCount(report);
  const kinds = (Object.keys(problemWords) as ProblemKind[]).filter((kind) => counts[kind] > 0);
  return (
    <>
      {count === 0 ? (
        <Banner kind="good" title="All is well" />
      ) : (
        <Banner kind="warn" title={`${formatCount(count, "problem")}, ${formatNumber(counts.mended)} mended`} />
      )}
      <Facts
        facts={[
          ["Objects", formatNumber(counts.objects)],
          ["Rows", formatNumber(counts.rows)],
        ]}
      />
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
      {kinds.map((kind) => (
        <section key={kind} className={css.section} aria-label={kind}>
          <h3>
            {kind} ({formatNumber(counts[kind])})
          </h3>
          <p>{problemWords[kind]}</p>
          <ul className={css.members} aria-label={`Objects: ${kind}`}>
            {problems
              .filter((problem) => problem.kind === kind)
              .map(({ path, detail, mended }) => (
                <li key={path}>
                  <span>
                    <code>{path}</code>
                    <br />
                    {detail}
                  </span>
                  {mended ? <span className={css.tag}>mended</span> : null}
                </li>
              ))}
          </ul>
        </section>
      ))}
    </>
  );
}
