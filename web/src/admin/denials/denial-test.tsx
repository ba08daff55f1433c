/** Would this text be denied? */
import { type ReactElement, useMemo, useState } from "react";

import { wordsOf } from "../../api/error.js";
import type { Denial } from "../../api/wire.js";
import { Button, TextArea, TextField } from "../../ui/controls/controls.js";
import { formatNumber } from "../../ui/format.js";
import { Banner } from "../../ui/states.js";
import { useTask } from "../api.js";
import { AdminError } from "../form.js";
import { judge, type Verdict } from "./denials.js";
import css from "./denial-test.module.css";

/** @param o.rules undefined: not known yet */
export function DenialTest({ rules }: { readonly rules: readonly Denial[] | undefined }): ReactElement {
  const [sql, setSql] = useState("");
  const [user, setUser] = useState("");
  const [client, setClient] = useState("");
  // A verdict is of what it was asked of: all of that may change before it comes.
  const asked = useMemo(() => ({ rules: rules ?? [], sql, user, client }), [rules, sql, user, client]);
  const [known, setKnown] = useState<{ readonly verdict: Verdict; readonly of: typeof asked } | null>(null);
  const verdict = known?.of === asked ? known.verdict : null;
  const task = useTask(async () => {
    setKnown(null);
    const query = { sql, ...(user === "" ? {} : { user }), ...(client === "" ? {} : { client }) };
    setKnown({ verdict: await judge(asked.rules, query), of: asked });
  });
  const change = (set: (value: string) => void) => (event: { readonly target: { readonly value: string } }) =>
    set(event.target.value);
  return (
    <section className={css.test} aria-labelledby="denial-test">
      <h2 id="denial-test">Would this text be denied?</h2>
      <div className={css.parts}>
        <TextArea label="Text of the query" value={sql} rows={3} onChange={change(setSql)} />
        <div className={css.who}>
          <TextField label="User" placeholder="you" value={user} spellCheck={false} onChange={change(setUser)} />
          <TextField
            label="Client"
            placeholder="its user-agent"
            value={client}
            spellCheck={false}
            onChange={change(setClient)}
          />
        </div>
      </div>
      <div className={css.answer} aria-live="polite">
        <Button busy={task.busy} disabled={sql === "" || rules === undefined} onClick={() => task.run()}>
          {task.busy ? "One moment…" : "Test it"}
        </Button>
        {task.error === null ? null : <AdminError error={task.error} title="The test did not work" />}
        {verdict === null ? null : <Answer verdict={verdict} rules={rules?.length ?? 0} />}
      </div>
    </section>
  );
}

function Answer({ verdict, rules }: { readonly verdict: Verdict; readonly rules: number }): ReactElement {
  const { refusing, broken } = verdict;
  return (
    <Banner
      kind={refusing.length > 0 ? "warn" : "good"}
      title={refusing.length > 0 ? "Yes, it would be denied" : "No, it would run"}
    >
      {refusing.map((rule) => (
        <p key={rule.rule_id}>
          {rule.reason} <code>{rule.match_expr}</code>
        </p>
      ))}
      {refusing.length === 0 ? <p>{ruleWords(rules)}</p> : null}
      {broken.map(({ rule, error }) => (
        <p key={rule.rule_id}>
          A rule fails on it, and so refuses nothing: <code>{rule.match_expr}</code> ({wordsOf(error)})
        </p>
      ))}
    </Banner>
  );
}

function ruleWords(rules: number): string {
  if (rules === 0) {
    return "There is no rule.";
  }
  return rules === 1 ? "The one rule is not true of it." : `None of the ${formatNumber(rules)} rules is true of it.`;
}
