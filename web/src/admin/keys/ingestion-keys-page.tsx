/** Ingestion keys: administrators see and revoke all of them; others mint for what they may. */
import { Link } from "@tanstack/react-router";
import { KeyRound } from "lucide-react";
import { type ReactElement, useState } from "react";

import { useMyAudiences } from "../../api/routes.js";
import type { IngestionKey } from "../../api/wire.js";
import { usePerson } from "../../api/session.js";
import { formatBytes, formatNumber } from "../../ui/format.js";
import { EmptyState, Skeleton } from "../../ui/states.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { useList } from "../api.js";
import { AdminError } from "../form.js";
import { ListPage, numberColumn, textColumn } from "../list-page.js";
import { KeyBanner, type MintedKey } from "./key-banner.js";
import { KeyDetails, keyColumns, useKeyFilter } from "./key-list.js";
import { MintIngestionForm } from "./mint-form.js";

export default function IngestionKeysPage(): ReactElement {
  return usePerson().isAdmin ? <AllKeys /> : <OwnMint />;
}

const idOf = (key: IngestionKey): string => key.key_id;

function columnsOf(rows: readonly IngestionKey[]): readonly TableColumn[] {
  return keyColumns(
    rows,
    [textColumn(rows, "audience", "Audience", (key) => key.audience, { width: 140 })],
    [
      numberColumn(rows, "requests", "Requests, 24 h", (key) => key.usage_24h?.requests ?? null),
      numberColumn(rows, "bytes", "Bytes, 24 h", (key) => key.usage_24h?.bytes ?? null, formatBytes),
    ],
  );
}

function AllKeys(): ReactElement {
  const query = useList<IngestionKey>(["ingestion-keys"], "api/ingestion-api-keys", { query: { include_usage: true } });
  const { filter, keep } = useKeyFilter();
  const [minted, setMinted] = useState<MintedKey | null>(null);
  return (
    <ListPage
      noun="ingestion keys"
      intro="Services send telemetry with an ingestion key. Each belongs to one audience, for good."
      query={query}
      idOf={idOf}
      columns={columnsOf}
      keep={keep}
      filters={filter}
      showAll="all"
      notes={minted === null ? null : <KeyBanner minted={minted} onDismiss={() => setMinted(null)} />}
      empty={{
        icon: <KeyRound />,
        title: "No ingestion key yet",
        text: "Mint one, and give it to the service that is to send telemetry.",
      }}
      add={{
        label: "Mint a key",
        title: "Mint an ingestion key",
        form: (close) => (
          <MintIngestionForm
            onCancel={close}
            onMinted={(key) => {
              setMinted(key);
              close();
            }}
          />
        ),
      }}
      panel={(row) => ({
        title: row.name,
        body: (
          <KeyDetails
            key={row.key_id}
            row={row}
            path="api/ingestion-api-keys"
            list="ingestion-keys"
            facts={[
              ["Audience", row.audience],
              ["Last 24 h", useWords(row)],
            ]}
            consequence={`Whatever sends to the audience ${row.audience} with it is refused within a minute or so.`}
          >
            <p>
              <Link to="/admin/usage" search={{ key: row.key_id }}>
                Its use over time
              </Link>
            </p>
          </KeyDetails>
        ),
      })}
    />
  );
}

function useWords({ usage_24h: use }: IngestionKey): string {
  return use === undefined || use.requests === 0
    ? "not used"
    : `${formatNumber(use.requests)} requests, ${formatBytes(use.bytes)}, ${formatNumber(use.records)} records`;
}

/** Of those who are no administrators. */
function OwnMint(): ReactElement {
  const mine = useMyAudiences();
  const [minted, setMinted] = useState<MintedKey | null>(null);
  const [count, setCount] = useState(0);
  if (mine.data === undefined) {
    return mine.error === null ? (
      <Skeleton rows={3} />
    ) : (
      <div className={css.failed}>
        <AdminError error={mine.error} title="What you may do could not be read" onRetry={() => void mine.refetch()} />
      </div>
    );
  }
  const { self_service: selfService, mint, email } = mine.data;
  const may = selfService && (mint.length > 0 || email !== null);
  return (
    <div className={css.wide}>
      {minted === null ? null : <KeyBanner minted={minted} onDismiss={() => setMinted(null)} />}
      {may ? (
        <section className={css.section} aria-labelledby="mint">
          <h2 id="mint">Mint an ingestion key</h2>
          <p className={css.intro}>
            Services send telemetry with it. {mintWords(mint)} The list of all keys is for administrators;{" "}
            <Link to="/audiences">Audiences</Link> shows what you may read and which of your keys are in use.
          </p>
          <MintIngestionForm
            key={count}
            onMinted={(key) => {
              setMinted(key);
              setCount(count + 1);
            }}
          />
        </section>
      ) : (
        <EmptyState
          icon={<KeyRound />}
          title={selfService ? "Your identity has no email" : "Keys are minted by administrators here"}
          actions={<Link to="/audiences">See what you may read</Link>}
        >
          {selfService
            ? "Claiming an audience takes a verified email, and you hold no mint grant. Ask an administrator for a key."
            : "Ask a member of the group admins for a key, and tell them which service it is for."}
        </EmptyState>
      )}
    </div>
  );
}

function mintWords(mint: readonly string[]): string {
  return mint.length === 0
    ? "You hold no mint grant: name an audience that nobody uses yet, and it is yours."
    : `You may mint for ${mint.join(", ")}, or claim an audience that nobody uses yet.`;
}
