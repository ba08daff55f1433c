/** Analytics keys: what programs and dashboards read with, and what each may read. */
import { ScanSearch } from "lucide-react";
import type { ReactElement } from "react";

import type { AnalyticsKey } from "../../api/wire.js";
import { KeyList, keyColumns } from "./key-list.js";
import { KeyReads } from "./key-reads.js";
import { MintAnalyticsForm } from "./mint-form.js";

const columnsOf = (rows: readonly AnalyticsKey[]) => keyColumns(rows);

export default function AnalyticsKeysPage(): ReactElement {
  return (
    <KeyList
      kind="analytics"
      intro="Programs and dashboards query with an analytics key. It reads the audiences that are granted to it, and nothing else."
      icon={<ScanSearch />}
      emptyText="Mint one for Grafana or a program of yours, and grant it what it may read."
      columns={columnsOf}
      Mint={MintAnalyticsForm}
      details={(row) => ({
        consequence: "Whatever queries with it is refused within a minute or so, and its grants are deleted.",
        children: row.revoked_at === null ? <KeyReads keyId={row.key_id} name={row.name} /> : null,
      })}
    />
  );
}
