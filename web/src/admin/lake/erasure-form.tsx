/** What to erase, and a question that says what that deletes. */
import { type ReactElement, useState } from "react";

import { call } from "../../api/call.js";
import type { ErasureId } from "../../api/wire.js";
import { serverNow } from "../../api/server-clock.js";
import { useChangeSearch } from "../../app/search.js";
import { SelectField, TextField } from "../../ui/controls/controls.js";
import { zoneName } from "../../ui/format.js";
import { toast } from "../../ui/toast.js";
import { useInvalidate, useTask } from "../api.js";
import { ConfirmDialog, Form } from "../form.js";
import { atField, fieldProblem } from "../rules.js";
import { AudienceField } from "./audience-field.js";
import {
  type ConditionKind,
  conditions,
  consequences,
  draftProblems,
  type ErasureDraft,
  type ErasureRequest,
  requestOf,
  whereWords,
} from "./erasures.js";

const empty: ErasureDraft = { audience: "", kind: "service", key: "", value: "", begin: "", end: "" };

const valueFields: Readonly<Record<ConditionKind, { readonly label: string; readonly hint: string }>> = {
  service: { label: "Service", hint: "service.name of the resource" },
  process: { label: "Process", hint: "process_id: the page Processes shows it" },
  trace: { label: "Trace", hint: "trace_id, 32 hexadecimal digits. Links of other spans to it stay." },
  attribute: {
    label: "Value",
    hint: "As text, whatever its type. Rows go that have it themselves, or whose resource, scope, events or links have it.",
  },
};

export function ErasureForm({ onCancel }: { readonly onCancel: () => void }): ReactElement {
  const [draft, setDraft] = useState(empty);
  const [tried, setTried] = useState(false);
  const [asked, setAsked] = useState<ErasureRequest | null>(null);
  const change = useChangeSearch();
  const invalidate = useInvalidate();
  const set = (changes: Partial<ErasureDraft>): void => setDraft({ ...draft, ...changes });
  const task = useTask(async () => {
    const { erasure_id: id } = await call<ErasureId>("api/erasures", { method: "POST", body: asked });
    await invalidate("erasures");
    toast("The erasure is asked for");
    return () => change({ new: undefined, open: id });
  });
  const problems = tried ? draftProblems(draft, serverNow()) : {};
  const problem = (field: keyof ErasureDraft): string | null => atField(problems[field] ?? null);
  const { kind } = draft;
  return (
    <>
      <Form
        label="Erase rows"
        submit="Erase…"
        busy={task.busy}
        error={asked === null ? task.error : null}
        onCancel={onCancel}
        onSubmit={() => {
          setTried(true);
          const nowMs = serverNow();
          if (Object.keys(draftProblems(draft, nowMs)).length === 0) {
            setAsked(requestOf(draft, nowMs));
          }
        }}
      >
        <AudienceField
          hint="Only its rows go."
          value={draft.audience}
          onChange={({ target }) => set({ audience: target.value })}
          problem={problem("audience") ?? atField(fieldProblem(task.error, "audience"))}
        />
        <SelectField
          label="Rows of"
          options={conditions}
          value={kind}
          onChange={(value) => set({ kind: conditions.find((each) => each.value === value)?.value ?? "service" })}
        />
        {kind === "attribute" ? (
          <TextField
            label="Attribute"
            hint="Its name, for example user.id"
            value={draft.key}
            spellCheck={false}
            onChange={({ target }) => set({ key: target.value })}
            problem={problem("key")}
          />
        ) : null}
        <TextField
          {...valueFields[kind]}
          value={draft.value}
          spellCheck={false}
          onChange={({ target }) => set({ value: target.value })}
          problem={problem("value")}
        />
        <TextField
          label="From"
          hint={`2026-01-31 12:00 is of ${zoneName()}; or 2026-01-31T12:00:00Z, or now-30d. Empty: from the first row on.`}
          value={draft.begin}
          spellCheck={false}
          onChange={({ target }) => set({ begin: target.value.trim() })}
          problem={problem("begin")}
        />
        <TextField
          label="Before"
          hint="Rows of this time stay. Empty: up to the last row."
          value={draft.end}
          spellCheck={false}
          onChange={({ target }) => set({ end: target.value.trim() })}
          problem={problem("end")}
        />
      </Form>
      <ConfirmDialog
        open={asked !== null}
        title={asked === null ? "" : `Erase the rows of ${whereWords(asked.where)}?`}
        confirm="Erase them for good"
        task={task}
        onClose={() => setAsked(null)}
      >
        {asked === null ? null : consequences(asked).map((sentence) => <p key={sentence}>{sentence}</p>)}
      </ConfirmDialog>
    </>
  );
}
