/** DoAction and ListActions: prepared statements, cancelling, sessions (Flight.proto, FlightSql.proto). */
import type { Metadata } from "@grpc/grpc-js";

import type { Principal } from "../../auth/principal.js";
import type { QueryCaller } from "../../query/statement.js";
import { openTicket, sealTicket, statementLifeMs } from "../../query/ticket.js";
import { ServiceError } from "../../runtime/errors.js";
import {
  cancelStatus,
  decodeCancelFlightInfo,
  decodeRenewFlightEndpoint,
  decodeSetSessionOptions,
  encodeActionType,
  encodeCancelFlightInfoResult,
  encodeCancelQueryResult,
  encodeCloseSessionResult,
  encodeGetSessionOptionsResult,
  encodeResult,
  encodeSetSessionOptionsResult,
  ticketOfEndpoint,
  ticketsOfInfo,
} from "../../wire/flight/flight-actions.js";
import { none } from "../../wire/protobuf-fields.js";
import { encapsulateMessage, encodeSchemaMessage } from "../../wire/flight/flight-arrow.js";
import { checkTextFields } from "../../wire/flight/flight-sql-commands.js";
import {
  decodeAction,
  decodeAny,
  decodeCommandStatementQuery,
  decodeStatementHandle,
  encodeFlightEndpoint,
  encodePreparedStatementResult,
  encodeStatementTicket,
  flightSqlNames,
} from "../../wire/flight/flight-protobuf.js";
import type { Call, FlightContext } from "./context.js";
import { authenticateCall } from "./credentials.js";
import { metadataResult } from "./metadata/metadata.js";
import { changeSession, closedCookie, sessionOptionsOf } from "./session.js";
import { notFlightSql, readOnly, unimplemented } from "./status.js";

interface ActionCaller extends QueryCaller {
  readonly signal: AbortSignal;
  readonly metadata: Metadata;
  /** Sends a cookie in front of the results. */
  readonly setCookie: (cookie: string) => void;
}

interface ActionDefinition {
  readonly description: string;
  readonly act: (context: FlightContext, caller: ActionCaller, body: Uint8Array) => Promise<Buffer[]> | Buffer[];
}

const actions: Readonly<Record<string, ActionDefinition>> = {
  CreatePreparedStatement: {
    description:
      "Creates a reusable prepared statement resource on the server. Request: ActionCreatePreparedStatementRequest. Response: ActionCreatePreparedStatementResult.",
    act: createPreparedStatement,
  },
  ClosePreparedStatement: {
    description:
      "Closes a reusable prepared statement resource on the server. Request: ActionClosePreparedStatementRequest. Response: none.",
    act: (context, { principal }, body) => {
      const handle = decodeStatementHandle(messageOf(body, flightSqlNames.closePreparedStatement));
      openTicket(context.ticketSecret, principal, "statement", handle, context.clock.nowMs());
      context.bound.delete(handle);
      return [];
    },
  },
  CancelFlightInfo: {
    description:
      "Cancels the execution of a flight. Request: CancelFlightInfoRequest. Response: CancelFlightInfoResult.",
    act: (context, caller, body) => {
      const tickets = decodeCancelFlightInfo(body);
      return [encodeCancelFlightInfoResult(cancel(context, caller, tickets))];
    },
  },
  CancelQuery: {
    description:
      "Cancels a query; CancelFlightInfo has taken its place. Request: ActionCancelQueryRequest. Response: ActionCancelQueryResult.",
    act: (context, caller, body) => {
      const info = decodeStatementHandle(messageOf(body, flightSqlNames.cancelQuery));
      return [encodeCancelQueryResult(cancel(context, caller, ticketsOfInfo(info)))];
    },
  },
  RenewFlightEndpoint: {
    description:
      "Gives an endpoint whose ticket lives longer. Request: RenewFlightEndpointRequest. Response: FlightEndpoint.",
    act: renew,
  },
  SetSessionOptions: {
    description:
      "Sets options of the session: catalog and schema, to the only ones there are; engine (local, cluster, auto), where queries run. Request: SetSessionOptionsRequest. Response: SetSessionOptionsResult.",
    act: (_context, { setCookie }, body) => {
      const change = changeSession(decodeSetSessionOptions(body));
      if (change.setCookie !== null) {
        setCookie(change.setCookie);
      }
      return [encodeSetSessionOptionsResult(change.errors)];
    },
  },
  GetSessionOptions: {
    description:
      "Gets the options of the session. Request: GetSessionOptionsRequest. Response: GetSessionOptionsResult.",
    act: (_context, { metadata }, body) => {
      checkTextFields(body, 0);
      return [encodeGetSessionOptionsResult(sessionOptionsOf(metadata))];
    },
  },
  CloseSession: {
    description:
      "Closes the session, of which nothing is kept. Request: CloseSessionRequest. Response: CloseSessionResult.",
    act: (_context, { setCookie }, body) => {
      checkTextFields(body, 0);
      setCookie(closedCookie);
      return [encodeCloseSessionResult()];
    },
  },
};

/** Actions of the standard for what this server does not do. */
const writing: ReadonlySet<string> = new Set(["BeginTransaction", "BeginSavepoint", "EndTransaction", "EndSavepoint"]);

/** DoAction. @returns encoded Results */
export async function doAction(
  context: FlightContext,
  call: Call & Pick<ActionCaller, "setCookie">,
  request: Uint8Array,
): Promise<Buffer[]> {
  const caller = await authenticateCall(context.authenticator, call);
  const { type, body } = decodeAction(request);
  const action = Object.hasOwn(actions, type) ? actions[type] : undefined;
  if (action !== undefined) {
    return action.act(context, { ...caller, ...call }, body);
  }
  if (writing.has(type)) {
    throw readOnly();
  }
  throw unimplemented(`The action ${JSON.stringify(type.slice(0, 80))}`);
}

/** ListActions. @returns encoded ActionTypes */
export async function listActions(context: FlightContext, call: Call): Promise<Buffer[]> {
  await authenticateCall(context.authenticator, call);
  return Object.entries(actions).map(([type, { description }]) => encodeActionType(type, description));
}

/** The message in an Any. @throws ServiceError BAD_REQUEST when it is another */
function messageOf(body: Uint8Array, name: string): Uint8Array {
  const message = decodeAny(body);
  if (message.name !== name) {
    throw new ServiceError("BAD_REQUEST", `The body of the action is not an Any of ${name}.`);
  }
  return message.value;
}

async function createPreparedStatement(
  context: FlightContext,
  caller: ActionCaller,
  body: Uint8Array,
): Promise<Buffer[]> {
  const request = messageOf(body, flightSqlNames.createPreparedStatement);
  const { query: sql, transactionId } = decodeCommandStatementQuery(request);
  if (transactionId.length > 0) {
    throw readOnly();
  }
  const { fields, parameters } = await context.queries.prepare(caller, sql, caller.signal);
  const range = { beginNs: null, endNs: null };
  const handle = sealTicket(
    context.ticketSecret,
    caller.principal,
    "statement",
    { sql, range, declared: parameters, sets: [] },
    context.clock.nowMs() + statementLifeMs,
  );
  return [
    encodePreparedStatementResult(
      handle,
      // Without a column only values tell which there are.
      fields.length === 0 ? none : encapsulateMessage(encodeSchemaMessage(fields)),
      encapsulateMessage(encodeSchemaMessage(parameters.map(({ field }) => field))),
    ),
  ];
}

/** Most tickets of a flight that is cancelled: ours have one. */
const maxTickets = 100;

/**
 * Cancels what runs with tickets, and what may still be fetched with them.
 * @throws ServiceError BAD_REQUEST for tickets that are not ours; NOT_FOUND when nothing runs here and another server
 *   may know
 */
function cancel(context: FlightContext, caller: ActionCaller, tickets: readonly Uint8Array[]): number {
  if (tickets.length === 0) {
    throw new ServiceError("BAD_REQUEST", "The flight has no ticket.");
  }
  if (tickets.length > maxTickets) {
    throw new ServiceError("BAD_REQUEST", `The flight has more than ${maxTickets} tickets.`);
  }
  const ids = tickets
    .filter((ticket) => !isMetadata(context, caller, ticket))
    .map((ticket) => openStatementTicket(context, caller.principal, ticket).id);
  if (ids.length === 0) {
    return cancelStatus.notCancellable;
  }
  const ran = ids.map((id) => context.running.cancel(id));
  if (!ran.includes(true) && context.ticketsShared) {
    throw new ServiceError(
      "NOT_FOUND",
      "No query of that ticket runs on this server, and none will start; another server of the group may run it.",
    );
  }
  return cancelStatus.cancelled;
}

/** Whether a ticket is a metadata command: it has no life that could be ended or made longer. */
function isMetadata({ queries }: FlightContext, caller: ActionCaller, ticket: Uint8Array): boolean {
  return metadataResult(queries, caller, decodeAny(ticket)) !== null;
}

function openStatementTicket(context: FlightContext, principal: Principal, bytes: Uint8Array) {
  const ticket = decodeAny(bytes);
  if (ticket.name !== flightSqlNames.ticketStatementQuery) {
    throw notFlightSql(ticket.name);
  }
  const handle = decodeStatementHandle(ticket.value);
  return openTicket(context.ticketSecret, principal, "ticket", handle, context.clock.nowMs());
}

function renew(context: FlightContext, caller: ActionCaller, body: Uint8Array): Buffer[] {
  const { principal } = caller;
  const ticket = ticketOfEndpoint(decodeRenewFlightEndpoint(body));
  if (isMetadata(context, caller, ticket)) {
    return [encodeResult(encodeFlightEndpoint(ticket, null))];
  }
  const statement = openStatementTicket(context, principal, ticket);
  context.running.check(statement.id);
  const { clock, ticketLifeMs, ticketSecret } = context;
  const expiresMs = clock.nowMs() + ticketLifeMs;
  // The same id: who cancels the flight cancels this ticket, too.
  const handle = sealTicket(ticketSecret, principal, "ticket", statement, expiresMs, statement.id);
  return [encodeResult(encodeFlightEndpoint(encodeStatementTicket(handle), expiresMs))];
}
