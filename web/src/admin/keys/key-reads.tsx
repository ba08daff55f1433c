/** What an analytics key may read. */
import { type ReactElement, useState } from "react";

import { call } from "../../api/call.js";
import { Skeleton } from "../../ui/states.js";
import { toast } from "../../ui/toast.js";
import css from "../admin.module.css";
import type { Grant } from "../../api/wire.js";
import { useList } from "../api.js";
import { GrantList, useGrantsChanged } from "../audiences/grants.js";
import { useCheckedForm } from "../checked-form.js";
import { AdminError, Form, NotAnew, SuggestField } from "../form.js";
import { textProblem, textRules } from "../rules.js";

export function KeyReads({ keyId, name }: { readonly keyId: string; readonly name: string }): ReactElement {
  const member = `key:${keyId.toLowerCase()}`;
  const grants = useList<Grant>(["grants", member], "api/audience-grants", { query: { member } });
  const all = useList<Grant>(["grants"], "api/audience-grants");
  const [audience, setAudience] = useState("");
  const changed = useGrantsChanged();
  const problems = { audience: textProblem("audience", audience, textRules.audience) };
  const { form, problem } = useCheckedForm(problems, async () => {
    await call("api/audience-grants", { method: "POST", body: { audience, kind: "read", member } });
    setAudience((now) => (now === audience ? "" : now)); // who types the next one meanwhile keeps it
    await changed();
    toast(`The key “${name}” may read ${audience}`);
  });
  return (
    <section className={css.section} aria-labelledby="reads">
      <h3 id="reads">It may read</h3>
      {/* Above the list, which would push it away when it comes. */}
      <Form label="Grant an audience" submit="Grant" {...form}>
        <SuggestField
          label="Audience"
          options={[...new Set((all.data ?? []).map((grant) => grant.audience))].toSorted()}
          value={audience}
          spellCheck={false}
          onChange={({ target }) => setAudience(target.value)}
          problem={problem("audience")}
        />
      </Form>
      {grants.data === undefined ? (
        grants.error === null ? (
          <Skeleton rows={2} />
        ) : (
          <AdminError error={grants.error} onRetry={() => void grants.refetch()} />
        )
      ) : (
        <>
          <NotAnew list={grants} noun="grants" />
          <GrantList
            label={`Audiences that ${name} may read`}
            grants={grants.data}
            shows="audience"
            none="Nothing yet beside what everybody may. Grant it an audience."
          />
        </>
      )}
    </section>
  );
}
