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
import { AdminError } from "../form.js";
import { numberColumn, textColumn } from "../list-page.js";
import { useKeyBanners } from "./key-banner.js";
import { KeyList, keyColumns } from "./key-list.js";
import { MintIngestionForm } from "./mint-form.js";

export default function IngestionKeysPage(): ReactElement {
  return usePerson().isAdmin ? <AllKeys /> : <OwnMint />;
}

const withUsage = { include_usage: true };

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
  return (
    <KeyList
      kind="ingestion"
      query={withUsage}
      intro="Services send telemetry with an ingestion key. Each belongs to one audience, for good."
      icon={<KeyRound />}
      emptyText="Mint one, and give it to the service that is to send telemetry."
      columns={columnsOf}
      Mint={MintIngestionForm}
      details={(row: IngestionKey) => ({
        facts: [
          ["Audience", row.audience],
          ["Last 24 h", usageWords(row)],
        ],
        consequence: `Whatever sends to the audience ${row.audience} with it is refused within a minute or so.`,
        children: (
          <p>
            <Link to="/admin/usage" search={{ key: row.key_id }}>
              Its use over time
            </Link>
          </p>
        ),
      })}
    />
  );
}

function usageWords({ usage_24h: use }: IngestionKey): string {
  return use === undefined || use.requests === 0
    ? "not used"
    : `${formatNumber(use.requests)} requests, ${formatBytes(use.bytes)}, ${formatNumber(use.records)} records`;
}

/** Of those who are no administrators. */
function OwnMint(): ReactElement {
  const mine = useMyAudiences();
  const { banners, show } = useKeyBanners();
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
      {banners}
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
              show(key);
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
