/**
 * Development mode: first keys, and the file `dev.env` that hands them and the addresses to a shell.
 *
 * Only this file holds the two keys in clear; it has mode 0600 and is in the data directory. Keys that it holds and
 * that are still live are used again, so that a shell that sourced the file keeps working; only keys that are missing,
 * revoked or of another audience are minted. The analytics key may read what the ingestion key writes, and the
 * administrator who logs in here may read it and mint keys that write it.
 */
import path from "node:path";

import { hashKeyBinary, isWellFormedKey } from "../../auth/key-string.js";
import { selectLiveKeys } from "../../auth/keys/key-query.js";
import { type KeyTable, mintAnalyticsKey, mintIngestionKey } from "../../auth/keys/keys.js";
import { otlpEnvironment } from "telemetry-service-client/otlp";
import type { Sql } from "../../db/sql.js";
import { readPrivateFile, writePrivateFile } from "telemetry-service-client/shared/private-file";

/** The keys of development mode, in clear. */
export interface DevelopmentKeys {
  readonly ingestionKey: string;
  readonly analyticsKey: string;
}

/** Addresses as clients on this machine reach them. */
export interface DevelopmentAddresses {
  /** `http://host:port` */
  readonly ingestionUrl: string;
  /** `grpc://host:port` */
  readonly analyticsUri: string;
  /** `http://host:port` and the base path; null where no web server runs. */
  readonly webUrl: string | null;
  /** Where the command line logs in; null where the service has no identity provider of its own. */
  readonly login: { readonly issuer: string; readonly clientId: string } | null;
}

const fileName = "dev.env";
const identity = "development mode";

/** Path of the file in a data directory. */
export function developmentFile(dataDirectory: string): string {
  return path.join(dataDirectory, fileName);
}

/**
 * Takes the keys from the file where they are live, mints the others, and leaves a file that holds both, so that a
 * minted key is never lost to a crash. Call it before the servers start, which refuse to without a live key.
 * @param o.audience write audience of the ingestion key; @param o.administrator `user:<email>`, null where nobody logs
 *   in here; @param o.addresses those configured; see {@link writeDevelopmentFile} for when the real ones differ.
 */
export async function prepareDevelopmentKeys(o: {
  readonly sql: Sql;
  readonly dataDirectory: string;
  readonly audience: string;
  readonly administrator: string | null;
  readonly addresses: DevelopmentAddresses;
}): Promise<DevelopmentKeys> {
  const file = developmentFile(o.dataDirectory);
  const { sql, audience, administrator } = o;
  const known = parseDevelopmentFile(await readPrivateFile(file));
  const ingestion = await liveKey(sql, "ingestion_api_keys", known.ingestionKey);
  const analytics =
    (await liveKey(sql, "analytics_api_keys", known.analyticsKey)) ??
    (await mintAnalyticsKey(sql, { name: identity, createdBy: identity }));
  const keys: DevelopmentKeys = {
    ingestionKey:
      ingestion?.audience === audience
        ? ingestion.key
        : (await mintIngestionKey(sql, { name: identity, audience, createdBy: identity })).key,
    analyticsKey: analytics.key,
  };
  await grant(sql, audience, "read", `key:${analytics.keyId}`);
  if (administrator !== null) {
    await grant(sql, audience, "read", administrator);
    await grant(sql, audience, "mint", administrator);
  }
  if (keys.ingestionKey !== known.ingestionKey || keys.analyticsKey !== known.analyticsKey) {
    await writeDevelopmentFile(o.dataDirectory, keys, o.addresses);
  }
  return keys;
}

/**
 * Writes the file unless it reads the same already; in both cases its mode is 0600 afterwards. It is
 * replaced whole, so that a reader never meets half of it.
 */
export async function writeDevelopmentFile(
  dataDirectory: string,
  keys: DevelopmentKeys,
  addresses: DevelopmentAddresses,
): Promise<void> {
  const file = developmentFile(dataDirectory);
  const content = developmentFileText(keys, addresses);
  if ((await readPrivateFile(file)) !== content) {
    await writePrivateFile(file, content);
  }
}

/** The content of the file: lines for `. data/dev.env`, with quotes, because addresses may hold brackets. */
function developmentFileText(keys: DevelopmentKeys, addresses: DevelopmentAddresses): string {
  const variables = [
    ...otlpEnvironment({ ingestionUrl: addresses.ingestionUrl, apiKey: keys.ingestionKey }),
    ["SVC_ANALYTICS_URI", addresses.analyticsUri],
    ["SVC_ANALYTICS_API_KEY", keys.analyticsKey],
    ...(addresses.webUrl === null ? [] : [["SVC_WEB_URL", addresses.webUrl] as const]),
    ...(addresses.login === null
      ? []
      : [
          ["SVC_OIDC_ISSUER", addresses.login.issuer] as const,
          ["SVC_OIDC_CLIENT_ID", addresses.login.clientId] as const,
        ]),
  ] as const;
  return [
    "# Written by telemetry-monolith --development; load it with: . data/dev.env",
    "# It holds keys: do not commit or share it. Removing it makes the next start mint new ones.",
    ...variables.map(([name, value]) => `export ${name}='${value}'`),
    "",
  ].join("\n");
}

/** The keys in a file's text; null where there is none that is well formed. */
export function parseDevelopmentFile(text: string | null): {
  readonly ingestionKey: string | null;
  readonly analyticsKey: string | null;
} {
  const find = (pattern: RegExp): string | null => {
    const key = pattern.exec(text ?? "")?.[1];
    return key !== undefined && isWellFormedKey(key) ? key : null;
  };
  return {
    ingestionKey: find(/^export OTEL_EXPORTER_OTLP_HEADERS=['"]?Authorization=Bearer%20(\w+)['"]?$/m),
    analyticsKey: find(/^export SVC_ANALYTICS_API_KEY=['"]?(\w+)['"]?$/m),
  };
}

/** A key of the file, when it is live. */
async function liveKey(
  sql: Sql,
  table: KeyTable,
  key: string | null,
): Promise<{
  readonly key: string;
  readonly keyId: string;
  readonly audience: string | null;
} | null> {
  if (key === null) {
    return null;
  }
  const [row] = await selectLiveKeys(sql, table, [hashKeyBinary(key)]);
  return row === undefined ? null : { key, keyId: row.key_id, audience: row.audience };
}

/** Lets a member read an audience or mint into it, unless everybody may. */
async function grant(sql: Sql, audience: string, kind: "read" | "mint", member: string): Promise<void> {
  await sql`
    insert into audience_grants (audience, kind, member, created_by)
    select ${audience}, ${kind}, ${member}, ${identity}
    where not exists (
      select from audience_grants where audience = ${audience} and kind = ${kind} and member = '*')
    on conflict do nothing`;
}
