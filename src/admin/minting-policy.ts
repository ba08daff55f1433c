/**
 * Who may mint an ingestion key into an audience: a non-admin only with self-service minting on and
 * within the bounds; everybody under a mint grant, or by claiming a brand-new audience with a verified
 * email. One statement reads the facts; the decision over them is pure.
 */
import type { SqlOrTransaction } from "../db/sql.js";
import { type Caller, userMemberOf } from "../auth/caller.js";

/** Settings that bound minting. */
export interface MintPolicy {
  /** `SVC_SELF_SERVICE_MINT` */
  readonly selfServiceMint: boolean;
  /** `SVC_SELF_SERVICE_MAX_CLAIMS_PER_CALLER` */
  readonly maxClaimsPerCaller: number;
  /** `SVC_SELF_SERVICE_MAX_KEYS_PER_CALLER`, live ones. */
  readonly maxKeysPerCaller: number;
  /** `SVC_DEFAULT_AUDIENCE`: for mints that name none. */
  readonly defaultAudience: string;
  /**
   * Audiences that nobody can claim: `public`, the default, and the one that unstamped rows are read as.
   * The first to claim one would own rows of everybody.
   */
  readonly reservedAudiences: ReadonlySet<string>;
}

/** What the database says about a caller and an audience. */
interface MintFacts {
  readonly isAdmin: boolean;
  /** A `mint` grant of the audience matches the caller. */
  readonly holdsGrant: boolean;
  /** The audience has a grant, or a key that was ever minted. */
  readonly audienceExists: boolean;
  /** Counted up to the bound only. */
  readonly liveKeys: number;
  /** Audiences that the caller claimed and still holds; counted up to the bound only. */
  readonly claims: number;
}

/** What follows. */
type MintDecision =
  | { readonly kind: "mint" }
  | { readonly kind: "claim" }
  /** FORBIDDEN with this sentence. */
  | { readonly kind: "refused"; readonly message: string };

const refused = (message: string): MintDecision => ({ kind: "refused", message });

/** The rules. @param explicit whether the request named the audience itself. */
export function decideMint(
  facts: MintFacts,
  policy: MintPolicy,
  request: { readonly caller: Caller; readonly audience: string; readonly explicit: boolean },
): MintDecision {
  const { caller, audience } = request;
  if (!facts.isAdmin && !policy.selfServiceMint) {
    return refused("self-service minting is off on this server; ask an administrator for a key");
  }
  if (!facts.isAdmin && facts.liveKeys >= policy.maxKeysPerCaller) {
    return refused(`you have ${policy.maxKeysPerCaller} live keys, the most one caller may have; have one revoked`);
  }
  if (facts.holdsGrant) {
    return { kind: "mint" };
  }
  if (facts.audienceExists) {
    return refused(
      `audience ${audience} is taken by somebody else, and you hold no mint grant for it; choose another name, or ask an administrator for a grant`,
    );
  }
  if (!request.explicit || policy.reservedAudiences.has(audience)) {
    return refused(
      `audience ${audience} cannot be claimed, and you hold no mint grant for it; name another, or ask an administrator for a grant`,
    );
  }
  if (caller.email === null) {
    return refused("claiming an audience takes a verified email, and your identity has none");
  }
  if (!facts.isAdmin && facts.claims >= policy.maxClaimsPerCaller) {
    return refused(`you have claimed ${policy.maxClaimsPerCaller} audiences, the most one caller may claim`);
  }
  return { kind: "claim" };
}

interface FactsRow {
  readonly has_keys: boolean;
  readonly has_grants: boolean;
  readonly is_admin: boolean;
  readonly holds_grant: boolean;
  readonly live_keys: number;
  readonly claims: number;
}

/**
 * Reads the facts, in one statement.
 * The key table comes first: on a schema before version 6 its missing column is what is reported.
 */
export async function selectMintFacts(
  sql: SqlOrTransaction,
  policy: MintPolicy,
  caller: Caller,
  audience: string,
): Promise<MintFacts> {
  const user = userMemberOf(caller);
  const [row] = await sql<FactsRow[]>`
    select
      exists (select from ingestion_api_keys where audience = ${audience}) as has_keys,
      exists (select from audience_grants where audience = ${audience}) as has_grants,
      exists (
        select from group_members
        where group_name = 'admins' and (member = '*' or lower(member collate "C") = ${user})
      ) as is_admin,
      exists (
        select from audience_grants g
        where g.audience = ${audience} and g.kind = 'mint' and (
          g.member = '*'
          or lower(g.member collate "C") = ${user}
          or (${user}::text is not null and exists (
            select from group_members m
            where g.member = 'group:' || m.group_name
              and (m.member = '*' or lower(m.member collate "C") = ${user})
          ))
        )
      ) as holds_grant,
      (
        select count(*)::int from (
          select from ingestion_api_keys
          where created_by = ${caller.name} and revoked_at is null
          limit ${policy.maxKeysPerCaller}
        ) live
      ) as live_keys,
      (
        select count(*)::int from (
          select from audience_grants
          where lower(member collate "C") = ${user} and kind = 'mint' and created_by = ${caller.name}
          limit ${policy.maxClaimsPerCaller}
        ) claimed
      ) as claims`;
  if (row === undefined) {
    throw new Error("a statement of facts returned no row");
  }
  return {
    isAdmin: row.is_admin,
    holdsGrant: row.holds_grant,
    audienceExists: row.has_keys || row.has_grants,
    liveKeys: row.live_keys,
    claims: row.claims,
  };
}
