/** The append-only record of who changed what: {@link AuditedChange} lists it. */
import type { SqlOrTransaction, TransactionSql } from "../db/sql.js";
import type { Caller } from "./caller.js";

/** Where a request came from. */
export interface RequestOrigin {
  /** Address of the peer: of an ingress, where there is one. */
  readonly from: string;
  /** What the peer says it forwards for (`X-Forwarded-For`), its end, or null; anybody can write it. */
  readonly forwardedFor: string | null;
}

const maxForwardedCharacters = 255;

/** Proxies append: what is true is at the end, behind what the client may have made up. @param forwarded all fields */
export function requestOrigin(from: string, forwarded: readonly string[]): RequestOrigin {
  const end = forwarded
    .filter((value) => value !== "")
    .join(", ")
    .slice(-maxForwardedCharacters);
  return { from, forwardedFor: end === "" ? null : end.replaceAll(/[^\x20-\x7e]/g, "?") };
}

/** `X-Forwarded-For` of what a server asks another one for a request that it was sent. */
export function forwardedFor(origin: RequestOrigin): string {
  return origin.forwardedFor === null ? origin.from : `${origin.forwardedFor}, ${origin.from}`;
}

/** Whose change it is: a person's. */
export interface Author {
  readonly caller: Caller;
  readonly origin: RequestOrigin;
}

/** Whose change it is: an API key has neither issuer nor subject. */
export interface AnyAuthor {
  readonly caller: Pick<Caller, "name"> & { readonly issuer: string | null; readonly subject: string | null };
  readonly origin: RequestOrigin;
}

/** A change. `details` must hold no secret. */
export interface AuditedChange {
  readonly action:
    | "key.mint"
    | "key.revoke"
    | "audience.claim"
    | "grant.create"
    | "grant.delete"
    | "group.create"
    | "group.delete"
    | "group.add_member"
    | "group.remove_member"
    | "data_source.save"
    | "data_source.delete"
    | "map.save"
    | "map.delete"
    | "denial.add"
    | "denial.remove"
    | "partitions.retire"
    | "retention.set"
    | "retention.delete"
    | "erasure.create"
    | "lake_check.create";
  /** A key id, an audience, a grant as `audience/kind/member`, or the name of what else was changed. */
  readonly target: string;
  readonly details: Readonly<Record<string, string>>;
}

/** An entry as the list route shows it. */
interface AuditEntry {
  readonly audit_id: number;
  readonly at: Date;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly details: unknown;
}

/** Appends a change, in the transaction that makes it. */
export async function appendAudit(tx: TransactionSql, by: AnyAuthor, change: AuditedChange): Promise<void> {
  await tx`
    insert into audit_log (actor, action, target, details)
    values (${by.caller.name}, ${change.action}, ${change.target},
      ${tx.json(detailsOf(by, change))})`;
}

/** Appends the changes that one request makes together, in their order, in one statement. */
export async function appendAudits(tx: TransactionSql, by: Author, changes: readonly AuditedChange[]): Promise<void> {
  const lines = changes.map((change) => ({
    action: change.action,
    target: change.target,
    details: detailsOf(by, change),
  }));
  await tx`
    insert into audit_log (actor, action, target, details)
    select ${by.caller.name}, line ->> 'action', line ->> 'target', line -> 'details'
    from jsonb_array_elements(${tx.json(lines)}) with ordinality as lines (line, place)
    order by place`;
}

function detailsOf({ caller, origin }: AnyAuthor, change: AuditedChange): Record<string, string> {
  return {
    ...change.details,
    from: origin.from,
    ...(origin.forwardedFor === null ? {} : { forwarded_for: origin.forwardedFor }),
    // Two identities may share an email; these tell them apart.
    ...(caller.issuer === null ? {} : { issuer: caller.issuer }),
    ...(caller.subject === null ? {} : { subject: caller.subject }),
  };
}

/** Which entries are listed: those before one of them, and of an action, an actor, a target. */
interface AuditQuery {
  readonly limit: number;
  readonly offset: number;
  readonly before?: number | undefined;
  readonly action?: string | undefined;
  readonly actor?: string | undefined;
  readonly target?: string | undefined;
}

/** Newest first. */
export async function selectAudit(sql: SqlOrTransaction, query: AuditQuery): Promise<readonly AuditEntry[]> {
  const { limit, offset, before, action, actor, target } = query;
  // In order of the identity column, which numbers the entries as they were written.
  const rows = await sql<(Omit<AuditEntry, "audit_id"> & { audit_id: bigint })[]>`
    select audit_id, at, actor, action, target, details from audit_log
    where true
      ${before === undefined ? sql`` : sql`and audit_id < ${before}::float8::bigint`}
      ${action === undefined ? sql`` : sql`and action = ${action}`}
      ${actor === undefined ? sql`` : sql`and actor = ${actor}`}
      ${target === undefined ? sql`` : sql`and target = ${target}`}
    order by audit_id desc limit ${limit} offset ${offset}`;
  return rows.map((row) => ({ ...row, audit_id: Number(row.audit_id) }));
}
