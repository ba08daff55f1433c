/** Audiences, from what is granted and from keys. */
import type { Grant, IngestionKey, MyAudiences } from "../../api/wire.js";

/** An audience, as far as the caller may know it. */
export interface Audience {
  readonly name: string;
  readonly read: boolean;
  readonly mint: boolean;
  /** Null where only administrators know them. */
  readonly grants: readonly Grant[] | null;
  readonly liveKeys: number | null;
}

/** By name. */
export function audiencesOf(
  mine: MyAudiences,
  grants: readonly Grant[] | null,
  keys: readonly IngestionKey[] | null,
): readonly Audience[] {
  const read = new Set(mine.read);
  const mint = new Set(mine.mint);
  const names = new Set([
    ...read,
    ...mint,
    ...(grants ?? []).map(({ audience }) => audience),
    ...(keys ?? []).map(({ audience }) => audience),
  ]);
  const grantsOf = grants === null ? null : byAudience(grants);
  const liveKeysOf = keys === null ? null : byAudience(keys.filter((key) => key.revoked_at === null));
  return [...names].toSorted().map((name) => ({
    name,
    read: read.has(name),
    mint: mint.has(name),
    grants: grantsOf === null ? null : (grantsOf.get(name) ?? []),
    liveKeys: liveKeysOf === null ? null : (liveKeysOf.get(name)?.length ?? 0),
  }));
}

function byAudience<T extends { readonly audience: string }>(rows: readonly T[]): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const group = groups.get(row.audience);
    if (group === undefined) {
      groups.set(row.audience, [row]);
    } else {
      group.push(row);
    }
  }
  return groups;
}
