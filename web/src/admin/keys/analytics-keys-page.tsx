/** Analytics keys: what programs and dashboards read with, and what each may read. */
import { ScanSearch } from "lucide-react";
import { type ReactElement, useState } from "react";

import type { AnalyticsKey } from "../../api/wire.js";
import { useList } from "../api.js";
import { ListPage } from "../list-page.js";
import { KeyBanner, type MintedKey } from "./key-banner.js";
import { KeyDetails, keyColumns, useKeyFilter } from "./key-list.js";
import { KeyReads } from "./key-reads.js";
import { MintAnalyticsForm } from "./mint-form.js";

const idOf = (key: AnalyticsKey): string => key.key_id;
const columnsOf = (rows: readonly AnalyticsKey[]) => keyColumns(rows);

export default function AnalyticsKeysPage(): ReactElement {
  const query = useList<AnalyticsKey>(["analytics-keys"], "api/analytics-api-keys");
  const { filter, keep } = useKeyFilter();
  const [minted, setMinted] = useState<MintedKey | null>(null);
  return (
    <ListPage
      noun="analytics keys"
      intro="Programs and dashboards query with an analytics key. It reads the audiences that are granted to it, and nothing else."
      query={query}
      idOf={idOf}
      columns={columnsOf}
      keep={keep}
      filters={filter}
      showAll="all"
      notes={minted === null ? null : <KeyBanner minted={minted} onDismiss={() => setMinted(null)} />}
      empty={{
        icon: <ScanSearch />,
        title: "No analytics key yet",
        text: "Mint one for Grafana or a program of yours, and grant it what it may read.",
      }}
      add={{
        label: "Mint a key",
        title: "Mint an analytics key",
        form: (close) => (
          <MintAnalyticsForm
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
            path="api/analytics-api-keys"
            list="analytics-keys"
            consequence="Whatever queries with it is refused within a minute or so, and its grants are deleted."
          >
            {row.revoked_at === null ? <KeyReads keyId={row.key_id} name={row.name} /> : null}
          </KeyDetails>
        ),
      })}
    />
  );
}
