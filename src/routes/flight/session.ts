/**
 * Sessions (FlightSql.proto, SetSessionOptions): the server keeps nothing of them. Catalog and schema are the only ones
 * there are. Where queries run is in a cookie, which clients bring back when they keep cookies (RFC 6265): ADBC with
 * `adbc.flight.sql.rpc.with_cookie_middleware`, JDBC by itself. The metadata of a call outweigh it.
 */
import type { Metadata } from "@grpc/grpc-js";

import { type EngineChoice, isEngineChoice, parseEngineChoice } from "../../query/cluster/engine-choice.js";
import { catalogName, schemaName } from "../../query/sql/catalog-names.js";
import { sessionErrors, type SessionOptions } from "../../wire/flight/flight-actions.js";

const cookieName = "query-engine";
const only: ReadonlyMap<string, string> = new Map([
  ["catalog", catalogName],
  ["schema", schemaName],
]);

/** Where the query of a call runs, if the call says. @throws ServiceError BAD_REQUEST */
export function engineOf(metadata: Metadata): { readonly engine?: EngineChoice } {
  const value = metadata.get("query-engine")[0] ?? cookieOf(metadata);
  return value === undefined ? {} : { engine: parseEngineChoice(String(value)) };
}

/** The options of a call's session, by name. */
export function sessionOptionsOf(metadata: Metadata): ReadonlyMap<string, string> {
  return new Map([...only, ["engine", cookieOf(metadata) ?? "auto"]]);
}

/** What SetSessionOptions comes to. */
interface SessionChange {
  /** By the names of the options that could not be set. */
  readonly errors: ReadonlyMap<string, number>;
  /** The header `set-cookie` of the answer, if it has one. */
  readonly setCookie: string | null;
}

/** Checks options to set; one without a value gets its default. */
export function changeSession(options: SessionOptions): SessionChange {
  const errors = new Map<string, number>();
  let setCookie: string | null = null;
  for (const [name, value] of options) {
    const text = value.kind === "text" ? value.text : null;
    if (name === "engine" && (value.kind === "none" || (text !== null && isEngineChoice(text)))) {
      setCookie = text === null ? closedCookie : `${cookieName}=${text}; Path=/`;
    } else if (name !== "engine" && !only.has(name)) {
      errors.set(name, sessionErrors.invalidName);
    } else if (value.kind !== "none" && text !== only.get(name)) {
      errors.set(name, sessionErrors.invalidValue);
    }
  }
  return { errors, setCookie };
}

/** The header `set-cookie` that ends a session. */
export const closedCookie = `${cookieName}=; Path=/; Max-Age=0`;

function cookieOf(metadata: Metadata): string | undefined {
  for (const header of metadata.get("cookie")) {
    for (const pair of String(header).split(";")) {
      const [name, ...value] = pair.split("=");
      if (name?.trim() === cookieName) {
        return value.join("=").trim();
      }
    }
  }
  return undefined;
}
