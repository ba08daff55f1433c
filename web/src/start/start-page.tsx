/** "Send your first data": a key, settings to copy, and a sign that turns green when something has arrived. */
import { Link } from "@tanstack/react-router";
import { CircleCheck, KeyRound, LoaderCircle } from "lucide-react";
import { type ReactElement, useState } from "react";

import { call } from "../api/call.js";
import { useLeftSignal } from "../api/left-signal.js";
import { useConfig, useMyAudiences } from "../api/routes.js";
import type { MintedIngestionKey } from "../api/wire.js";
import { usePerson } from "../api/session.js";
import { serverNow } from "../api/server-clock.js";
import { textOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { Button, classes, CopyButton, Select, TextField } from "../ui/controls/controls.js";
import { formatCount } from "../ui/format.js";
import { Banner, ErrorPart } from "../ui/states.js";
import { type Language, languages, type Settings } from "./languages.js";
import css from "./start-page.module.css";
import { useArrivals } from "./arrivals.js";

export default function StartPage(): ReactElement {
  const { data: config } = useConfig();
  const search = useSearchParameters();
  const change = useChangeSearch();
  const [opened] = useState(() => new Date(serverNow()).toISOString());
  // Held by this page alone: gone with it.
  const [minted, setMinted] = useState<MintedIngestionKey | null>(null);
  const [service, setService] = useState("my-service");
  const [address, setAddress] = useState<string | null>(null);
  const endpoint = (address ?? config?.ingestion_url ?? "").replace(/\/+$/, "");
  const language = languages.find(({ id }) => id === textOf(search["language"])) ?? languages[0];
  const arrivals = useArrivals(minted?.created_at ?? opened, minted?.audience ?? null);
  const settings: Settings = {
    endpoint: endpoint === "" ? "https://ingestion.example.com" : endpoint,
    key: minted?.key ?? null,
    service: service.trim() === "" ? "my-service" : service.trim(),
  };
  return (
    <div className={css.page}>
      <p className={css.lead}>
        Anything that speaks OpenTelemetry can send here: a program with an SDK or an agent, or a Collector.
      </p>
      <Step number={1} title="Mint a key">
        {minted === null ? <Mint onMinted={setMinted} /> : <Minted minted={minted} onDismiss={() => setMinted(null)} />}
      </Step>
      <Step number={2} title="Tell your program where to send">
        <div className={css.fields}>
          <TextField label="Name of the service" value={service} onChange={(event) => setService(event.target.value)} />
          <TextField
            label="Address for OTLP over HTTP"
            value={address ?? config?.ingestion_url ?? ""}
            placeholder="https://ingestion.example.com"
            spellCheck={false}
            onChange={(event) => setAddress(event.target.value)}
          />
        </div>
        <div className={css.tabs} role="group" aria-label="Language">
          {languages.map(({ id, name }) => (
            <Button
              key={id}
              look="quiet"
              aria-pressed={id === language?.id}
              onClick={() => change({ language: id }, { replace: true })}
            >
              {name}
            </Button>
          ))}
        </div>
        {language === undefined ? null : <Snippets language={language} settings={settings} />}
      </Step>
      <Step number={3} title="See it arrive">
        <Arrival {...arrivals} />
      </Step>
    </div>
  );
}

function Step({
  number,
  title,
  children,
}: {
  readonly number: number;
  readonly title: string;
  readonly children: React.ReactNode;
}): ReactElement {
  return (
    <section className={css.step}>
      <span className={css.number} aria-hidden>
        {number}
      </span>
      <div className={css.content}>
        <h2>{title}</h2>
        {children}
      </div>
    </section>
  );
}

function Mint({ onMinted }: { readonly onMinted: (minted: MintedIngestionKey) => void }): ReactElement {
  const { data: mine, error: mineError } = useMyAudiences();
  const { data: config } = useConfig();
  const { email } = usePerson();
  const [name, setName] = useState("first data");
  const [audience, setAudience] = useState<string | null>(null);
  const [fresh, setFresh] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const signal = useLeftSignal();
  if (mineError !== null) {
    return <ErrorPart error={mineError} title="It cannot be told what you may do" />;
  }
  if (mine === undefined) {
    return <div className={css.placeholder} aria-busy="true" />;
  }
  const mayClaim = email !== null && (mine.self_service || mine.is_admin);
  if (mine.mint.length === 0 && !mayClaim) {
    return (
      <Banner title="You may not mint keys yet.">
        <p>
          Ask an administrator for a key, or for a grant of the kind <code>mint</code> for an audience. The settings
          below work with any ingestion key.
        </p>
      </Banner>
    );
  }
  const preferred = mine.mint.find((each) => each === config?.default_audience) ?? mine.mint[0] ?? "";
  const chosen = audience ?? preferred;
  const named = chosen === "" ? fresh.trim() : chosen;
  const mint = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const body = { name: name.trim(), audience: named };
      onMinted(await call<MintedIngestionKey>("api/ingestion-api-keys", { method: "POST", body, signal: signal() }));
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className={css.mint}
      onSubmit={(event) => {
        event.preventDefault();
        void mint();
      }}
    >
      <div className={css.fields}>
        <TextField
          label="Name of the key"
          value={name}
          maxLength={255}
          onChange={(event) => setName(event.target.value)}
        />
        <div className={css.audience}>
          <span className={css.label}>Audience: who may read what it sends</span>
          <Select
            label="Audience of the key"
            value={chosen}
            options={[
              ...mine.mint.map((each) => ({ value: each, label: each })),
              ...(mayClaim ? [{ value: "", label: "A new one, of mine" }] : []),
            ]}
            onChange={setAudience}
          />
        </div>
        {chosen === "" ? (
          <TextField
            label="Name of the new audience"
            value={fresh}
            maxLength={255}
            problem={fresh === "" || /^[A-Za-z0-9_-]+$/.test(fresh) ? null : "Letters, digits, _ and - only"}
            onChange={(event) => setFresh(event.target.value)}
          />
        ) : null}
      </div>
      {error === null ? null : <ErrorPart error={error} title="The key was not minted" />}
      <Button look="primary" type="submit" busy={busy} disabled={name.trim() === "" || !/^[A-Za-z0-9_-]+$/.test(named)}>
        <KeyRound /> Mint a key
      </Button>
    </form>
  );
}

function Minted({
  minted,
  onDismiss,
}: {
  readonly minted: MintedIngestionKey;
  readonly onDismiss: () => void;
}): ReactElement {
  return (
    <Banner
      kind="good"
      title={`The key “${minted.name}” writes for the audience ${minted.audience}.`}
      onDismiss={onDismiss}
    >
      <p>It is in the settings below. It is shown this once: when you leave the page, nobody can show it again.</p>
      <p className={css.key}>
        <code>{minted.key}</code>
        <CopyButton text={minted.key} label="Copy the key" />
      </p>
    </Banner>
  );
}

function Snippets({ language, settings }: { readonly language: Language; readonly settings: Settings }): ReactElement {
  return (
    <div className={css.snippets}>
      {language.snippets(settings).map(({ title, text }) => (
        <figure key={title} className={css.snippet}>
          <figcaption>
            {title}
            <CopyButton text={text} label={`Copy: ${title}`} />
          </figcaption>
          <pre tabIndex={0}>{text}</pre>
        </figure>
      ))}
    </div>
  );
}

function Arrival({ services, error }: ReturnType<typeof useArrivals>): ReactElement {
  if (error !== null) {
    return <ErrorPart error={error} title="It cannot be told whether something has arrived" />;
  }
  if (services.length === 0) {
    return (
      <p className={classes(css.arrival, css.waiting)} role="status">
        <LoaderCircle aria-hidden /> Waiting for the first record. What is answered with success can be queried at once.
      </p>
    );
  }
  return (
    <div className={classes(css.arrival, css.arrived)} role="status">
      <CircleCheck aria-hidden />
      <div>
        <strong>It works.</strong>
        {services.map(({ name, records }) => (
          <p key={name}>
            {formatCount(records, "record")} from {name}
          </p>
        ))}
        <p>
          <Link to="/">See what the service knows now</Link>
        </p>
      </div>
    </div>
  );
}
