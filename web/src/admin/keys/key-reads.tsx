/** What an analytics key may read. */
import { type ReactElement, useState } from "react";

import { call } from "../../api/call.js";
import { Skeleton, toast } from "../../ui/states.js";
import css from "../admin.module.css";
import type { Grant } from "../../api/wire.js";
import { useList, useTask } from "../api.js";
import { GrantList, useGrantsChanged } from "../audiences/grants.js";
import { AdminError, Form, SuggestField } from "../form.js";
import { fieldProblem, textProblem, textRules } from "../rules.js";

export function KeyReads({ keyId, name }: { readonly keyId: string; readonly name: string }): ReactElement {
  const member = `key:${keyId.toLowerCase()}`;
  const grants = useList<Grant>(["grants", member], "api/audience-grants", { query: { member } });
  const all = useList<Grant>(["grants"], "api/audience-grants");
  const [audience, setAudience] = useState("");
  const [tried, setTried] = useState(false);
  const changed = useGrantsChanged();
  const problem = textProblem("audience", audience, textRules.audience);
  const task = useTask(async () => {
    await call("api/audience-grants", { method: "POST", body: { audience, kind: "read", member } });
    setAudience("");
    setTried(false);
    await changed();
    toast(`The key “${name}” may read ${audience}`);
  });
  return (
    <section className={css.section} aria-labelledby="reads">
      <h3 id="reads">It may read</h3>
      {grants.data === undefined ? (
        grants.error === null ? (
          <Skeleton rows={2} />
        ) : (
          <AdminError error={grants.error} onRetry={() => void grants.refetch()} />
        )
      ) : (
        <GrantList
          label={`Audiences that ${name} may read`}
          grants={grants.data}
          shows="audience"
          none="Nothing yet beside what everybody may. Grant it an audience."
        />
      )}
      <Form
        label="Grant an audience"
        submit="Grant"
        busy={task.busy}
        error={task.error}
        fields={["audience"]}
        onSubmit={() => {
          setTried(true);
          if (problem === null) {
            task.run();
          }
        }}
      >
        <SuggestField
          label="Audience"
          options={[...new Set((all.data ?? []).map((grant) => grant.audience))].toSorted()}
          value={audience}
          spellCheck={false}
          onChange={({ target }) => setAudience(target.value)}
          problem={(tried ? problem : null) ?? fieldProblem(task.error, "audience")}
        />
      </Form>
    </section>
  );
}
