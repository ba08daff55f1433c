/** Forms that mint keys. The key goes to whoever shows it, and nowhere else. */
import { type ReactElement, useState } from "react";

import { call } from "../../api/call.js";
import { useConfig, useMyAudiences } from "../../api/routes.js";
import { usePerson } from "../../api/session.js";
import { TextField } from "../../ui/controls.js";
import { useInvalidate, useTask } from "../api.js";
import { Form, SuggestField } from "../form.js";
import { fieldProblem, textProblem, textRules } from "../rules.js";
import type { MintedKey } from "./key-banner.js";

interface FormProps {
  readonly onMinted: (minted: MintedKey) => void;
  readonly onCancel?: () => void;
}

/** @param audience that is filled in at first */
export function MintIngestionForm({
  onMinted,
  onCancel,
  audience: first = "",
}: FormProps & { readonly audience?: string }): ReactElement {
  const [name, setName] = useState("");
  const [audience, setAudience] = useState(first);
  const [tried, setTried] = useState(false);
  const invalidate = useInvalidate();
  const mine = useMyAudiences();
  const config = useConfig();
  const { email } = usePerson();
  const nameProblem = textProblem("name", name, textRules.keyName);
  const audienceProblem = audience === "" ? null : textProblem("audience", audience, textRules.audience);
  const task = useTask(async () => {
    const minted = await call<MintedKey>("api/ingestion-api-keys", {
      method: "POST",
      body: { name, ...(audience === "" ? {} : { audience }) },
    });
    onMinted(minted);
    await invalidate("ingestion-keys", "my-audiences", "grants", "usage");
  });
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
    <Form
      label="Mint an ingestion key"
      submit="Mint the key"
      busy={task.busy}
      error={task.error}
      fields={["name", "audience"]}
      {...(onCancel === undefined ? {} : { onCancel })}
      onSubmit={() => {
        setTried(true);
        if (nameProblem === null && audienceProblem === null) {
          task.run();
        }
      }}
    >
      <TextField
        label="Name"
        hint="What it is for: the service or machine that sends with it."
        value={name}
        required
        onChange={({ target }) => setName(target.value)}
        problem={(tried ? nameProblem : null) ?? fieldProblem(task.error, "name")}
      />
      <SuggestField
        label="Audience"
        hint={hint}
        options={may}
        value={audience}
        spellCheck={false}
        onChange={({ target }) => setAudience(target.value)}
        problem={audienceProblem ?? fieldProblem(task.error, "audience")}
      />
    </Form>
  );
}

export function MintAnalyticsForm({ onMinted, onCancel }: FormProps): ReactElement {
  const [name, setName] = useState("");
  const [tried, setTried] = useState(false);
  const invalidate = useInvalidate();
  const problem = textProblem("name", name, textRules.keyName);
  const task = useTask(async () => {
    const minted = await call<MintedKey>("api/analytics-api-keys", { method: "POST", body: { name } });
    onMinted(minted);
    await invalidate("analytics-keys");
  });
  return (
    <Form
      label="Mint an analytics key"
      submit="Mint the key"
      busy={task.busy}
      error={task.error}
      fields={["name"]}
      {...(onCancel === undefined ? {} : { onCancel })}
      onSubmit={() => {
        setTried(true);
        if (problem === null) {
          task.run();
        }
      }}
    >
      <TextField
        label="Name"
        hint="What it is for: the dashboard or program that reads with it."
        value={name}
        required
        onChange={({ target }) => setName(target.value)}
        problem={(tried ? problem : null) ?? fieldProblem(task.error, "name")}
      />
    </Form>
  );
}
