/** The caller's own keys. Only administrators list keys that were never used; others see theirs by their use. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { call } from "../../api/call.js";
import { usePerson } from "../../api/session.js";
import type { IngestionKey, UsageRow } from "../../api/wire.js";
import { serverNow } from "../../api/server-clock.js";
import { formatAge, formatBytes, formatNumber } from "../../ui/format.js";
import { Skeleton } from "../../ui/states.js";
import { listAll } from "../api.js";
import { AdminError, NotAnew } from "../form.js";
import css from "./own-keys.module.css";

const days = 30;

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
  const { isAdmin, email, subject } = usePerson();
  const { data, error, refetch } = useQuery({
    queryKey: ["admin", "ingestion-keys", "own"],
    queryFn: async ({ signal }): Promise<readonly OwnKey[]> => {
      const begin = new Date(serverNow() - days * 86_400_000).toISOString();
      const [use, listed] = await Promise.all([
        call<readonly UsageRow[]>("api/usage", { query: { begin, step: "all", mine: true }, signal }),
        isAdmin
          ? listAll<IngestionKey>("api/ingestion-api-keys", { include_revoked: false }, signal)
          : Promise.resolve(null),
      ]);
      const used = sums(use);
      if (listed === null) {
        return used;
      }
      const isOwn = ({ created_by: by }: IngestionKey): boolean => by === email || by === subject;
      return listed.filter(isOwn).map(({ key_id: keyId, name, audience, last_used_at: lastUsed }) => {
        const { requests = 0, bytes = 0 } = used.find((each) => each.keyId === keyId) ?? {};
        return { keyId, name, audience, requests, bytes, lastUsed };
      });
    },
  });
  return { keys: data, error, refetch };
}

/** By key, the one used last first. */
function sums(use: readonly UsageRow[]): readonly OwnKey[] {
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
  return [...keys.values()].toSorted((a, b) => (b.lastUsed ?? "").localeCompare(a.lastUsed ?? ""));
}

export function OwnKeys({ own }: { readonly own: OwnKeysState }): ReactElement {
  const { isAdmin } = usePerson();
  const { keys, error } = own;
  return (
    <section className={css.own} aria-labelledby="own-keys">
      <div className={css.head}>
        <h2 id="own-keys">Your ingestion keys</h2>
        <span>
          {isAdmin
            ? `Live ones that you minted, with their use in the last ${days} days`
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
        <div className={css.scroll} tabIndex={0} role="group" aria-label="Your ingestion keys">
          <table>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Audience</th>
                <th scope="col" className={css.number}>
                  Requests
                </th>
                <th scope="col" className={css.number}>
                  Bytes
                </th>
                <th scope="col">Last used</th>
              </tr>
            </thead>
            <tbody>
              {keys.map((key) => (
                <tr key={key.keyId}>
                  <td title={key.name}>
                    <Link to="/admin/usage" search={{ key: key.keyId }}>
                      {key.name}
                    </Link>
                  </td>
                  <td title={key.audience}>{key.audience}</td>
                  <td className={css.number}>{formatNumber(key.requests)}</td>
                  <td className={css.number}>{formatBytes(key.bytes)}</td>
                  <td>{key.lastUsed === null ? "never" : formatAge(Date.parse(key.lastUsed), serverNow())}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
