/**
 * Data sources: analytics servers that queries of the web application may ask, by name. Administrators change them: a
 * data source gets the identity token of everybody who queries it, and is reached from the web server's network.
 */
import { parseFlightSqlUri } from "telemetry-service-client/flight/flight-address";
import type { SqlOrTransaction, TransactionSql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { appendAudit, type Author } from "../../auth/audit.js";
import type { Created } from "../grant-administration.js";
import { builtInSource } from "../../wire/web/app-api.js";

/** A data source of the table. */
export interface SourceRow {
  readonly name: string;
  readonly uri: string;
  readonly is_default: boolean;
}

const maxSources = 100;

/** By name. */
export async function selectSources(sql: SqlOrTransaction): Promise<readonly SourceRow[]> {
  return await sql<SourceRow[]>`
    select name, uri, is_default from web.data_sources order by name collate "C" limit ${maxSources}`;
}

/**
 * Saves a data source.
 * @throws ServiceError BAD_REQUEST for an address that is none, CONFLICT for the name of the built-in one
 */
export async function saveSource(
  tx: TransactionSql,
  by: Author,
  { name, uri, is_default }: SourceRow,
): Promise<Created<SourceRow>> {
  assertNotBuiltIn(name);
  assertUri(uri);
  // One at a time: two defaults at once would be one too many.
  await tx`lock table web.data_sources in share row exclusive mode`;
  const [known] = await tx`select from web.data_sources where name = ${name}`;
  const [count] = await tx<{ n: number }[]>`select count(*)::int as n from web.data_sources`;
  if (known === undefined && (count?.n ?? 0) >= maxSources) {
    throw new ServiceError("CONFLICT", `there are ${maxSources} data sources already; delete some first`);
  }
  if (is_default) {
    await tx`update web.data_sources set is_default = false where is_default and name <> ${name}`;
  }
  const [row] = await tx<SourceRow[]>`
    insert into web.data_sources (name, uri, is_default, updated_by)
    values (${name}, ${uri}, ${is_default}, ${by.caller.name})
    on conflict (name) do update
      set uri = excluded.uri, is_default = excluded.is_default, updated_at = now(), updated_by = excluded.updated_by
    returning name, uri, is_default`;
  if (row === undefined) {
    throw new Error("a data source was not saved");
  }
  await appendAudit(tx, by, {
    action: "data_source.save",
    target: name,
    details: { uri, is_default: String(is_default) },
  });
  return { row, created: known === undefined };
}

/** @throws ServiceError NOT_FOUND, and CONFLICT for the built-in one */
export async function deleteSource(tx: TransactionSql, by: Author, name: string): Promise<void> {
  assertNotBuiltIn(name);
  const deleted = await tx`delete from web.data_sources where name = ${name}`;
  if (deleted.count === 0) {
    throw noSuchSource();
  }
  await appendAudit(tx, by, { action: "data_source.delete", target: name, details: {} });
}

export const noSuchSource = (): ServiceError => new ServiceError("NOT_FOUND", "there is no data source of that name");

function assertNotBuiltIn(name: string): void {
  if (name === builtInSource) {
    throw new ServiceError(
      "CONFLICT",
      `the data source ${builtInSource} is that of SVC_ANALYTICS_URI; it is the default when no other is`,
    );
  }
}

/** Neither path nor credentials: a token in an address would be shown to every administrator. */
function assertUri(uri: string): void {
  if (!/^grpc(?:\+tls)?:\/\//.test(uri)) {
    throw badUri();
  }
  try {
    parseFlightSqlUri(uri);
  } catch (cause) {
    throw badUri(cause);
  }
}

function badUri(cause?: unknown): ServiceError {
  return new ServiceError(
    "BAD_REQUEST",
    "uri must be grpc://host:port or grpc+tls://host:port, without credentials or path",
    { cause },
  );
}
