/** Forms that mint keys. The key goes to whoever shows it, and nowhere else. */
import { type ReactElement, type ReactNode, useState } from "react";

import { call } from "../../api/call.js";
import { useLeftSignal } from "../../api/left-signal.js";
import { useConfig, useMyAudiences } from "../../api/routes.js";
import { usePerson } from "../../api/session.js";
import { TextField } from "../../ui/controls/controls.js";
import { useInvalidate } from "../api.js";
import { useCheckedForm } from "../checked-form.js";
import { Form, SuggestField } from "../form.js";
import { atField, textProblem, textRules } from "../rules.js";
import type { KeyKind, MintedKey } from "./key-banner.js";

export interface MintFormProps {
  readonly onMinted: (minted: MintedKey) => void;
  readonly onCancel?: () => void;
}

/** @param audience that is filled in at first */
export function MintIngestionForm({
  audience: first = "",
  ...rest
}: MintFormProps & { readonly audience?: string }): ReactElement {
  const [audience, setAudience] = useState(first);
  const mine = useMyAudiences();
  const config = useConfig();
  const { email } = usePerson();
  const wrong = audience === "" ? null : textProblem("audience", audience, textRules.audience);
  const may = mine.data?.mint ?? [];
  const known = may.includes(audience);
  const byDefault = config.data?.default_audience ?? "public";
  const hint =
    audience === ""
      ? `Left empty: ${byDefault}.`
      : known
        ? "You may mint for it."
        : email === null
          ? "Claiming a new audience takes a verified email, and your identity has none."
          : "If nobody uses this name yet, minting makes it yours.";
  return (
    <MintForm
      {...rest}
      kind="ingestion"
      hint="What it is for: the service or machine that sends with it."
      audience={{ value: audience, problem: wrong }}
      changes={["my-audiences", "grants", "usage"]}
    >
      {(problem) => (
        <SuggestField
          label="Audience"
          hint={hint}
          options={may}
          value={audience}
          spellCheck={false}
          onChange={({ target }) => setAudience(target.value)}
          problem={atField(wrong) ?? problem}
        />
      )}
    </MintForm>
  );
}

export function MintAnalyticsForm(props: MintFormProps): ReactElement {
  return (
    <MintForm {...props} kind="analytics" hint="What it is for: the dashboard or program that reads with it.">
      {() => null}
    </MintForm>
  );
}

function MintForm({
  kind,
  hint,
  audience = { value: "", problem: null },
  changes = [],
  onMinted,
  onCancel,
  children,
}: MintFormProps & {
  readonly kind: KeyKind;
  readonly hint: string;
  /** Empty: the server chooses. */
  readonly audience?: { readonly value: string; readonly problem: string | null };
  /** Names of lists that are asked anew beside that of the keys. */
  readonly changes?: readonly string[];
  /** Gets what the server says of the audience. */
  readonly children: (audienceProblem: string | null) => ReactNode;
}): ReactElement {
  const [name, setName] = useState("");
  const invalidate = useInvalidate();
  const signal = useLeftSignal();
  const problems = { name: textProblem("name", name, textRules.keyName), audience: audience.problem };
  const { form, problem } = useCheckedForm(problems, async () => {
    const body = { name, ...(audience.value === "" ? {} : { audience: audience.value }) };
    onMinted(await call<MintedKey>(`api/${kind}-api-keys`, { method: "POST", body, signal: signal() }));
    await invalidate(`${kind}-keys`, ...changes);
  });
  return (
    <Form label={`Mint an ${kind} key`} submit="Mint the key" onCancel={onCancel} {...form}>
      <TextField
        label="Name"
        hint={hint}
        value={name}
        required
        onChange={({ target }) => setName(target.value)}
        problem={problem("name")}
      />
      {children(problem("audience"))}
    </Form>
  );
}
