/**
 * Tickets (Flight.proto Ticket) and handles of prepared statements: self-contained, signed, bound to the
 * caller and short-lived. Every server with the secret serves them; it refuses those of another caller,
 * changed ones and expired ones.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

import type { Principal } from "../auth/principal.js";
import { ServiceError } from "../runtime/errors.js";
import type { EngineChoice } from "./cluster/engine-choice.js";
import type { ParameterDeclaration, ParameterValue } from "./gate/parameters.js";
import type { QueryRange } from "./plan.js";

/** What a ticket or a handle means. */
export interface StatementContent {
  readonly sql: string;
  readonly range: QueryRange;
  /** Parameters that the statement asks for. */
  readonly declared: readonly ParameterDeclaration[];
  /** Values of all parameters, once for each time that the statement runs; empty: none are bound. */
  readonly sets: readonly (readonly ParameterValue[])[];
  /** Where it runs, when the caller says. */
  readonly engine?: EngineChoice;
}

/** An opened ticket or handle. */
interface OpenedStatement extends StatementContent {
  /** Different for each that was ever written, but for a renewed ticket, which has that of the first. */
  readonly id: string;
}

/** What a signed text may be used for: fetching a result, or naming a prepared statement. */
type TicketUse = "ticket" | "statement";

/** Life of a prepared statement's handle in milliseconds. */
export const statementLifeMs = 24 * 3600_000;

const macBytes = 32;
const version = 4;

interface Payload {
  readonly v: number;
  readonly id: string;
  readonly sql: string;
  readonly begin: string | null;
  readonly end: string | null;
  readonly declared: StatementContent["declared"];
  /** Types of the values, each once. */
  readonly types: readonly string[];
  /** Values as the place of their type and their text. */
  readonly sets: readonly (readonly (readonly [type: number, text: string | null])[])[];
  readonly engine?: EngineChoice;
  readonly caller: string;
  /** Milliseconds since 1970. */
  readonly expires: number;
}

/**
 * Writes a handle for a caller.
 * @param expiresMs milliseconds since 1970
 * @param id of the ticket that this one takes the place of; a new one by default
 */
export function sealTicket(
  secret: Uint8Array,
  principal: Principal,
  use: TicketUse,
  content: StatementContent,
  expiresMs: number,
  id = randomBytes(12).toString("base64url"),
): Buffer {
  const types = [...new Set(content.sets.flatMap((set) => set.map(({ type }) => type)))];
  const places = new Map(types.map((type, i) => [type, i]));
  const payload: Payload = {
    v: version,
    id,
    sql: content.sql,
    begin: content.range.beginNs?.toString() ?? null,
    end: content.range.endNs?.toString() ?? null,
    declared: content.declared.map(({ name, type }) => ({ name, type })),
    types,
    sets: content.sets.map((set) => set.map(({ type, text }) => [places.get(type) ?? 0, text])),
    ...(content.engine === undefined ? {} : { engine: content.engine }),
    caller: callerOf(principal),
    expires: expiresMs,
  };
  const json = Buffer.from(JSON.stringify(payload), "utf8");
  return Buffer.concat([sign(secret, use, json), json]);
}

/**
 * Reads a handle.
 * @throws ServiceError BAD_REQUEST when it is not ours, was changed or has expired; FORBIDDEN when it was
 *   issued to somebody else
 */
export function openTicket(
  secret: Uint8Array,
  principal: Principal,
  use: TicketUse,
  handle: Uint8Array,
  nowMs: number,
): OpenedStatement {
  const what = use === "ticket" ? "ticket" : "prepared statement's handle";
  const remedy = use === "ticket" ? "ask for the flight again" : "prepare the statement again";
  const mac = handle.subarray(0, macBytes);
  const json = handle.subarray(macBytes);
  if (mac.length !== macBytes || !timingSafeEqual(sign(secret, use, json), mac)) {
    throw new ServiceError(
      "BAD_REQUEST",
      `The ${what} is not valid on this server; ${remedy}. Servers of a group share SVC_ANALYTICS_TICKET_SECRET.`,
    );
  }
  // The signature is ours, so the shape is; but it may be that of an older version.
  const payload = JSON.parse(Buffer.from(json).toString("utf8")) as Payload;
  if (payload.v !== version || payload.expires <= nowMs) {
    throw new ServiceError("BAD_REQUEST", `The ${what} has expired; ${remedy}.`);
  }
  if (payload.caller !== callerOf(principal)) {
    throw new ServiceError("FORBIDDEN", `The ${what} was issued to another caller.`);
  }
  const { id, sql, begin, end, declared, types, sets, engine } = payload;
  return {
    id,
    sql,
    range: {
      beginNs: begin === null ? null : BigInt(begin),
      endNs: end === null ? null : BigInt(end),
    },
    declared,
    sets: sets.map((set) => set.map(([type, text]) => ({ type: types[type] ?? "VARCHAR", text }))),
    ...(engine === undefined ? {} : { engine }),
  };
}

function sign(secret: Uint8Array, use: TicketUse, json: Uint8Array): Buffer {
  return createHmac("sha256", secret).update(`flight ${use}\0`).update(json).digest();
}

function callerOf({ kind, keyId, issuer, subject, email }: Principal): string {
  return JSON.stringify([kind, keyId, issuer, subject, email]);
}
