/** The caller's own keys. Only administrators list keys that were never used; others see theirs by their use. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";

import { call } from "../../api/call.js";
import { usePerson } from "../../api/session.js";
import type { IngestionKey, UsageRow } from "../../api/wire.js";
import { serverNow } from "../../api/server-clock.js";
import { formatBytes, formatNumber } from "../../ui/format.js";
import { Skeleton } from "../../ui/states.js";
import { DataTable } from "../../ui/table/data-table.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import { rowPixels } from "../../ui/table/use-rows.js";
import { listAll, mostRows } from "../api.js";
import { AdminError, NotAnew } from "../form.js";
import { numberColumn, textColumn, timeColumn } from "../list-page.js";
import css from "./own-keys.module.css";

const days = 30;
/** Rows without scrolling. */
const mostInView = 8;

/** A key of the caller's, with its use in the last days. */
interface OwnKey {
  readonly keyId: string;
  readonly name: string;
  readonly audience: string;
  readonly requests: number;
  readonly bytes: number;
  /** RFC 3339; of the hour in which it was used last for those who are no administrators. */
  readonly lastUsed: string | null;
}

interface OwnKeysState {
  readonly keys: readonly OwnKey[] | undefined;
  readonly error: unknown;
  readonly refetch: () => Promise<unknown>;
}

export function useOwnKeys(): OwnKeysState {
  const { isAdmin } = usePerson();
  const { data, error, refetch } = useQuery({
    queryKey: ["admin", "ingestion-keys", "own"],
    queryFn: async ({ signal }): Promise<readonly OwnKey[]> => {
      const begin = new Date(serverNow() - days * 86_400_000).toISOString();
      const [use, listed] = await Promise.all([
        call<readonly UsageRow[]>("api/usage", { query: { begin, step: "all", mine: true }, signal }),
        isAdmin
          ? listAll<IngestionKey>("api/ingestion-api-keys", { include_revoked: false, mine: true }, signal)
          : Promise.resolve(null),
      ]);
      const used = sums(use);
      if (listed === null) {
        return [...used.values()].toSorted((a, b) => (b.lastUsed ?? "").localeCompare(a.lastUsed ?? ""));
      }
      return listed.map(({ key_id: keyId, name, audience, last_used_at: lastUsed }) => {
        const { requests = 0, bytes = 0 } = used.get(keyId) ?? {};
        return { keyId, name, audience, requests, bytes, lastUsed };
      });
    },
  });
  return { keys: data, error, refetch };
}

/** By id of the key. */
function sums(use: readonly UsageRow[]): ReadonlyMap<string, OwnKey> {
  const keys = new Map<string, OwnKey>();
  for (const { key_id: keyId, name, audience, requests, bytes, at } of use) {
    const before = keys.get(keyId);
    keys.set(keyId, {
      keyId,
      name,
      audience,
      requests: requests + (before?.requests ?? 0),
      bytes: bytes + (before?.bytes ?? 0),
      lastUsed: at,
    });
  }
  return keys;
}

export function OwnKeys({ own }: { readonly own: OwnKeysState }): ReactElement {
  const { isAdmin } = usePerson();
  const { keys, error } = own;
  const isCut = keys !== undefined && keys.length >= mostRows;
  return (
    <section className={css.own} aria-labelledby="own-keys">
      <div className={css.head}>
        <h2 id="own-keys">Your ingestion keys</h2>
        <span>
          {isAdmin
            ? `${isCut ? `The newest ${formatNumber(mostRows)} live` : "Live"} ones that you minted, with their use in the last ${days} days`
            : `Those that were used in the last ${days} days; administrators see the others`}
        </span>
      </div>
      {keys === undefined || error === null ? null : (
        <div className={css.note}>
          <NotAnew list={own} noun="keys" />
        </div>
      )}
      {keys === undefined ? (
        error === null ? (
          <Skeleton rows={2} />
        ) : (
          <div className={css.note}>
            <AdminError error={error} title="Your keys could not be read" onRetry={() => void own.refetch()} />
          </div>
        )
      ) : keys.length === 0 ? (
        <p className={css.none}>{isAdmin ? "You minted none that is live." : "None was used."}</p>
      ) : (
        <div className={css.table} style={{ height: (Math.min(keys.length, mostInView) + 1) * rowPixels + 2 }}>
          <KeyTable keys={keys} />
        </div>
      )}
    </section>
  );
}

/** Rows open their use over time. */
function KeyTable({ keys }: { readonly keys: readonly OwnKey[] }): ReactElement {
  const navigate = useNavigate();
  const columns = useMemo(() => columnsOf(keys), [keys]);
  return (
    <DataTable
      label="Your ingestion keys"
      columns={columns}
      rows={keys.length}
      version={keys}
      onSelect={(row) => {
        const key = row === null ? undefined : keys[row];
        if (key !== undefined) {
          void navigate({ to: "/admin/usage", search: { key: key.keyId } });
        }
      }}
    />
  );
}

function columnsOf(keys: readonly OwnKey[]): readonly TableColumn[] {
  return [
    textColumn(keys, "name", "Name", ({ name }) => name, {
      width: 240,
      leastWidth: 160,
      cell: (row) => <KeyLink of={keys[row]} />,
    }),
    textColumn(keys, "audience", "Audience", ({ audience }) => audience, { keep: true }),
    numberColumn(keys, "requests", "Requests", ({ requests }) => requests),
    numberColumn(keys, "bytes", "Bytes", ({ bytes }) => bytes, formatBytes),
    timeColumn(keys, "lastUsed", "Last used", ({ lastUsed }) => lastUsed, { age: true, keep: true }),
  ];
}

/** For the pointer, which may open it in another tab: keys have the row. */
function KeyLink({ of: key }: { readonly of: OwnKey | undefined }): ReactElement | null {
  return key === undefined ? null : (
    <Link to="/admin/usage" search={{ key: key.keyId }} tabIndex={-1} onClick={(event) => event.stopPropagation()}>
      {key.name}
    </Link>
  );
}
