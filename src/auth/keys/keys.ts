/**
 * Minting: the one code path that makes API keys, for the web routes, the command line and
 * development mode alike. The cleartext exists in the returned value and nowhere else.
 */
import { randomUUID } from "node:crypto";
import type { SqlOrTransaction } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { generateKeyString, hashKey } from "../key-string.js";

/** The two key tables. Their names are also the values of the `table` label of metrics. */
export type KeyTable = "ingestion_api_keys" | "analytics_api_keys";

/** A key just made. `key` is the cleartext: return it once, never log or store it. */
export interface MintedKey {
  readonly keyId: string;
  readonly key: string;
  readonly name: string;
  readonly createdAt: Date;
}

/** A new ingestion key; its `audience` never changes. */
export interface MintedIngestionKey extends MintedKey {
  readonly audience: string;
}

const audiencePattern = /^[A-Za-z0-9_-]{1,255}$/;
const maxNameBytes = 255;
const maxIdentityCharacters = 255;

/** True for a legal audience: 1 to 255 characters of `[A-Za-z0-9_-]`. */
export function isAudience(value: string): boolean {
  // `$` without the m flag still matches only at the very end in JavaScript: no trailing newline.
  return audiencePattern.test(value);
}

/**
 * Throws BAD_REQUEST unless `name` is text of 1 to 255 bytes in UTF-8, not all white space, that Postgres can store.
 */
function assertKeyName(name: string): void {
  const bytes = Buffer.byteLength(name, "utf8");
  if (name.trim() === "") {
    throw new ServiceError("BAD_REQUEST", "name must not be empty");
  }
  if (bytes > maxNameBytes) {
    throw new ServiceError("BAD_REQUEST", "name must be at most 255 bytes");
  }
  if (name.includes("\0") || Buffer.from(name, "utf8").toString("utf8") !== name) {
    throw new ServiceError("BAD_REQUEST", "name must be valid Unicode text without NUL");
  }
}

function assertCreatedBy(createdBy: string): void {
  if (createdBy === "" || createdBy.length > maxIdentityCharacters || createdBy.includes("\0")) {
    throw new ServiceError("BAD_REQUEST", "the caller's identity must be 1 to 255 characters");
  }
}

interface InsertedRow {
  readonly created_at: Date;
}

function createdAtOf(rows: readonly InsertedRow[]): Date {
  const row = rows[0];
  if (row === undefined) {
    throw new Error("insert of a key returned no row");
  }
  return row.created_at;
}

/**
 * Insert a live ingestion key and return its cleartext, once.
 * @param o.name 1 to 255 bytes, not unique; @param o.audience immutable write audience;
 * @param o.createdBy email or subject of the caller; @param o.keyId a fresh UUID by default.
 * @throws ServiceError BAD_REQUEST for a malformed name or audience; database errors as they are.
 */
export async function mintIngestionKey(
  sql: SqlOrTransaction,
  o: {
    readonly name: string;
    readonly audience: string;
    readonly createdBy: string;
    readonly keyId?: string;
  },
): Promise<MintedIngestionKey> {
  assertKeyName(o.name);
  assertCreatedBy(o.createdBy);
  if (!isAudience(o.audience)) {
    throw new ServiceError("BAD_REQUEST", "audience must match ^[A-Za-z0-9_-]+$, at most 255");
  }
  const keyId = o.keyId ?? randomUUID();
  const key = generateKeyString();
  const rows = await sql<InsertedRow[]>`
    insert into ingestion_api_keys (key_id, key_hash, name, created_at, created_by, audience)
    values (${keyId}, ${hashKey(key)}, ${o.name}, now(), ${o.createdBy}, ${o.audience})
    returning created_at`;
  return { keyId, key, name: o.name, createdAt: createdAtOf(rows), audience: o.audience };
}

/**
 * Insert a live analytics key and return its cleartext, once. What it may read is granted apart,
 * to the member `key:<keyId>`.
 * @throws ServiceError BAD_REQUEST for a malformed name; database errors as they are.
 */
export async function mintAnalyticsKey(
  sql: SqlOrTransaction,
  o: { readonly name: string; readonly createdBy: string },
): Promise<MintedKey> {
  assertKeyName(o.name);
  assertCreatedBy(o.createdBy);
  const keyId = randomUUID();
  const key = generateKeyString();
  const rows = await sql<InsertedRow[]>`
    insert into analytics_api_keys (key_id, key_hash, name, created_at, created_by)
    values (${keyId}, ${hashKey(key)}, ${o.name}, now(), ${o.createdBy})
    returning created_at`;
  return { keyId, key, name: o.name, createdAt: createdAtOf(rows) };
}

/** True when `table` holds a key, revoked ones included. */
export async function holdsKeys(sql: SqlOrTransaction, table: KeyTable): Promise<boolean> {
  const rows = await sql<{ present: boolean }[]>`
    select exists (select from ${sql(table)}) as present`;
  return rows[0]?.present === true;
}
