/** Grants in a panel: who holds which, one more, one less. */
import { X } from "lucide-react";
import { type ReactElement, useState } from "react";

import { call } from "../../api/call.js";
import type { Grant } from "../../api/wire.js";
import { IconButton, SelectField } from "../../ui/controls/controls.js";
import { formatTime } from "../../ui/format.js";
import { useGoneFocus } from "../../ui/panel.js";
import { toast } from "../../ui/toast.js";
import css from "../admin.module.css";
import { useInvalidate, useTask } from "../api.js";
import { useCheckedForm } from "../checked-form.js";
import { AdminError, Form, SuggestField } from "../form.js";
import { textProblem, textRules } from "../rules.js";

type GrantKind = Grant["kind"];

/** Asks the lists anew that grants are in. */
export function useGrantsChanged(): () => Promise<void> {
  const invalidate = useInvalidate();
  return () => invalidate("grants", "my-audiences");
}

/** @param shows which part of a grant tells it apart in this list */
export function GrantList({
  label,
  grants,
  shows,
  none,
}: {
  readonly label: string;
  readonly grants: readonly Grant[];
  readonly shows: "member" | "audience";
  readonly none: string;
}): ReactElement {
  const changed = useGrantsChanged();
  const remove = useTask(async ({ audience, kind, member }: Grant) => {
    await call("api/audience-grants", { method: "DELETE", query: { audience, kind, member } });
    await changed();
    toast(`${member} may no longer ${kind === "read" ? "read" : "mint for"} ${audience}`);
  });
  const goneFocus = useGoneFocus<HTMLDivElement>();
  return (
    <div className={css.section} {...goneFocus}>
      {grants.length === 0 ? (
        <p className={css.muted}>{none}</p>
      ) : (
        <ul className={css.members} aria-label={label}>
          {grants.map((grant) => {
            const { audience, kind, member, created_at: at, created_by: by } = grant;
            return (
              <li key={`${audience} ${kind} ${member}`}>
                <span title={`Granted by ${by}, ${formatTime(Date.parse(at), { digits: 0 })}`}>
                  {shows === "member" ? memberWords(member) : audience}
                </span>
                <IconButton
                  label={`Take from ${member}: ${kind} ${audience}`}
                  busy={remove.busy}
                  onClick={() => remove.run(grant)}
                >
                  <X />
                </IconButton>
              </li>
            );
          })}
        </ul>
      )}
      {remove.error === null ? null : <AdminError error={remove.error} />}
    </div>
  );
}

/** Grants something of an audience to a member that is typed. */
export function AddGrantForm({
  audience,
  members,
}: {
  readonly audience: string;
  readonly members: readonly string[];
}): ReactElement {
  const [member, setMember] = useState("");
  const [kind, setKind] = useState<GrantKind>("read");
  const changed = useGrantsChanged();
  const problems = { member: textProblem("member", member, textRules.grantMember) };
  const { form, problem } = useCheckedForm(problems, async () => {
    await call("api/audience-grants", { method: "POST", body: { audience, kind, member } });
    setMember((now) => (now === member ? "" : now)); // who types the next one meanwhile keeps it
    await changed();
    toast(`${member} may ${kind === "read" ? "read" : "mint for"} ${audience}`);
  });
  return (
    <Form label={`Grant ${audience}`} submit="Grant" {...form}>
      <SuggestField
        label="To whom"
        hint="user:<email>, group:<name>, key:<key_id> or *, which is everybody"
        options={members}
        value={member}
        spellCheck={false}
        onChange={({ target }) => setMember(target.value)}
        problem={problem("member")}
      />
      <SelectField
        label="What"
        value={kind}
        options={[
          { value: "read", label: "Read it" },
          { value: "mint", label: "Mint keys that write to it" },
        ]}
        onChange={(next) => setKind(next === "mint" ? "mint" : "read")}
      />
    </Form>
  );
}

/** A member in words. */
export function memberWords(member: string): string {
  return member === "*" ? "* (everybody)" : member;
}
