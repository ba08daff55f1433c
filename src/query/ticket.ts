/**
 * Tickets (Flight.proto Ticket): self-contained, signed, bound to the caller and short-lived. Any server
 * that shares the secret serves any ticket; a stranger's, a changed or an old one is refused.
 */
import { createHmac, timingSafeEqual } from "node:crypto";

import type { Principal } from "../auth/principal.js";
import { ServiceError } from "../runtime/errors.js";
import type { BoundParameter } from "./parameters.js";
import type { QueryRange } from "./plan.js";

/** What a ticket stands for. */
export interface TicketContent {
  readonly sql: string;
  readonly range: QueryRange;
  /** Values of a prepared statement's parameters. */
  readonly parameters?: readonly BoundParameter[];
}

/** What a signed text may be used for: fetching a result, or naming a prepared statement. */
export type TicketUse = "ticket" | "statement";

const macBytes = 32;
const version = 1;

interface Payload {
  readonly v: number;
  readonly sql: string;
  readonly begin: string | null;
  readonly end: string | null;
  readonly caller: string;
  /** Milliseconds since 1970. */
  readonly expires: number;
}

/** Writes a ticket's handle for a caller. */
export function sealTicket(
  secret: Uint8Array,
  principal: Principal,
  use: TicketUse,
  content: TicketContent,
  expiresMs: number,
): Buffer {
  const payload: Payload = {
    v: version,
    sql: content.sql,
    begin: content.range.beginNs?.toString() ?? null,
    end: content.range.endNs?.toString() ?? null,
    caller: callerOf(principal),
    expires: expiresMs,
  };
  const json = Buffer.from(JSON.stringify(payload), "utf8");
  return Buffer.concat([sign(secret, use, json), json]);
}

/**
 * Reads a ticket's handle.
 * @throws ServiceError BAD_REQUEST when it is not ours, was changed or has expired; FORBIDDEN when it was
 *   issued to somebody else
 */
export function openTicket(
  secret: Uint8Array,
  principal: Principal,
  use: TicketUse,
  handle: Uint8Array,
  nowMs: number,
): TicketContent {
  const mac = handle.subarray(0, macBytes);
  const json = handle.subarray(macBytes);
  if (mac.length !== macBytes || !timingSafeEqual(sign(secret, use, json), mac)) {
    throw new ServiceError("BAD_REQUEST", "The ticket is not valid.");
  }
  // The signature is ours, so the shape is.
  const payload = JSON.parse(Buffer.from(json).toString("utf8")) as Payload;
  if (payload.v !== version || payload.expires <= nowMs) {
    throw new ServiceError("BAD_REQUEST", "The ticket has expired; ask for the flight again.");
  }
  if (payload.caller !== callerOf(principal)) {
    throw new ServiceError("FORBIDDEN", "The ticket was issued to another caller.");
  }
  return {
    sql: payload.sql,
    range: {
      beginNs: payload.begin === null ? null : BigInt(payload.begin),
      endNs: payload.end === null ? null : BigInt(payload.end),
    },
  };
}

function sign(secret: Uint8Array, use: TicketUse, json: Uint8Array): Buffer {
  return createHmac("sha256", secret).update(`flight ${use}\0`).update(json).digest();
}

function callerOf(principal: Principal): string {
  return JSON.stringify([principal.kind, principal.keyId, principal.subject, principal.email]);
}
