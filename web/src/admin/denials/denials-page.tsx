/** The deny list: rules that refuse queries, and a box that says whether a text would be refused. */
import { useQuery } from "@tanstack/react-query";
import { ShieldBan } from "lucide-react";
import { type ReactElement, useState } from "react";

import { call } from "../../api/call.js";
import type { Denial } from "../../api/wire.js";
import { useChangeSearch } from "../../app/search.js";
import { Button, TextArea } from "../../ui/controls/controls.js";
import { Banner } from "../../ui/states.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { useInvalidate, useTask } from "../api.js";
import { useCheckedForm } from "../checked-form.js";
import { AdminError, ConfirmButton, Form } from "../form.js";
import { Facts, ListPage, textColumn, timeColumn, timeText } from "../list-page.js";
import { textProblem, textRules } from "../rules.js";
import { DenialTest } from "./denial-test.js";
import { matches } from "./denials.js";

const idOf = (rule: Denial): string => rule.rule_id;

function columnsOf(rows: readonly Denial[]): readonly TableColumn[] {
  return [
    textColumn(rows, "match_expr", "Refuses when", (rule) => rule.match_expr, { width: 380, mono: true }),
    textColumn(rows, "reason", "Because", ({ reason }) => reason, { width: 260 }),
    textColumn(rows, "created_by", "By", (rule) => rule.created_by, { width: 170 }),
    timeColumn(rows, "created_at", "Since", (rule) => rule.created_at),
  ];
}

export default function DenialsPage(): ReactElement {
  // There are few: the whole list is one answer.
  const query = useQuery({
    queryKey: ["admin", "denials"],
    queryFn: ({ signal }) => call<readonly Denial[]>("api/query-denials", { signal }),
  });
  return (
    <ListPage
      noun="rules"
      intro="A query is refused when one of these expressions is true of it, whoever asks, administrators included. All servers follow a change within ten seconds."
      query={query}
      idOf={idOf}
      columns={columnsOf}
      empty={{
        icon: <ShieldBan />,
        title: "No query is refused by a rule",
        text: "Add a rule when a query harms the service: what it asks for, and what its author should do instead.",
      }}
      add={{ label: "Add a rule", title: "Add a rule", form: (close) => <DenialForm onCancel={close} /> }}
      panel={(rule, close) => ({
        title: "Rule",
        body: <DenialDetails key={rule.rule_id} rule={rule} onRemoved={close} />,
      })}
      foot={<DenialTest rules={query.data} />}
    />
  );
}

function DenialDetails({ rule, onRemoved }: { readonly rule: Denial; readonly onRemoved: () => void }): ReactElement {
  const invalidate = useInvalidate();
  return (
    <>
      <section className={css.section} aria-label="Refuses when">
        <h3>Refuses when</h3>
        <pre className={css.code}>{rule.match_expr}</pre>
      </section>
      <Facts
        facts={[
          ["Because", rule.reason],
          ["Since", `${timeText(rule.created_at)} by ${rule.created_by}`],
          ["Rule id", <code key="id">{rule.rule_id}</code>],
        ]}
      />
      <div className={css.actions}>
        <ConfirmButton
          label="Remove…"
          title="Remove this rule?"
          confirm="Remove the rule"
          done="The rule is removed"
          onConfirm={async () => {
            await call("api/query-denials", { method: "DELETE", query: { rule_id: rule.rule_id } });
            await invalidate("denials");
            onRemoved();
          }}
        >
          <p>Queries run again that it refused because “{rule.reason}”.</p>
          <pre className={css.code}>{rule.match_expr}</pre>
        </ConfirmButton>
      </div>
    </>
  );
}

function DenialForm({ onCancel }: { readonly onCancel: () => void }): ReactElement {
  const [expression, setExpression] = useState("");
  const [reason, setReason] = useState("");
  const [sample, setSample] = useState("");
  // A verdict is of the texts that it was asked of.
  const [known, setKnown] = useState<{ readonly refuses: boolean; readonly of: string } | null>(null);
  const asked = JSON.stringify([expression, sample]);
  const verdict = known?.of === asked ? known.refuses : null;
  const change = useChangeSearch();
  const invalidate = useInvalidate();
  const problems = {
    match_expr: textProblem("match_expr", expression, textRules.expression),
    reason: textProblem("reason", reason, textRules.reason),
  };
  const { form, problem } = useCheckedForm(problems, async () => {
    const { rule_id: id } = await call<Denial>("api/query-denials", {
      method: "POST",
      body: { match_expr: expression, reason },
    });
    await invalidate("denials");
    return () => change({ new: undefined, open: id });
  });
  const trial = useTask(async () => {
    setKnown(null);
    setKnown({ refuses: await matches(expression, { sql: sample }), of: asked });
  });
  return (
    <Form label="Add a rule" submit="Add the rule" onCancel={onCancel} {...form}>
      <TextArea
        label="Refuse when"
        hint="One SQL expression without subqueries over user, email, client, sql and sql_hash. For example: contains(sql, 'CROSS JOIN') AND client LIKE 'dashboard%'"
        value={expression}
        onChange={({ target }) => setExpression(target.value)}
        problem={problem("match_expr")}
      />
      <TextArea
        label="Because"
        hint="Whoever is refused reads this: say what to do instead."
        rows={2}
        spellCheck
        value={reason}
        onChange={({ target }) => setReason(target.value)}
        problem={problem("reason")}
      />
      <TextArea
        label="Try it on a query"
        hint="Nothing is saved by that, and the query does not run."
        value={sample}
        onChange={({ target }) => setSample(target.value)}
      />
      <div className={css.actions}>
        <Button busy={trial.busy} disabled={expression === "" || sample === ""} onClick={() => trial.run()}>
          Try it
        </Button>
      </div>
      {trial.error === null ? null : <AdminError error={trial.error} title="The expression cannot be tried" />}
      {verdict === null ? null : verdict ? (
        <Banner kind="warn">This query would be refused.</Banner>
      ) : (
        <Banner kind="good">This query would not be refused.</Banner>
      )}
    </Form>
  );
}
