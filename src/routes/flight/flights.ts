/** Flights (Flight.proto FlightInfo): what a descriptor means, and how its result is fetched. */
import { Metadata, type ServerWritableStream } from "@grpc/grpc-js";

import { encodeRows } from "../../query/arrow/arrow-values.js";
import { bindParameters, type BoundParameter } from "../../query/gate/parameters.js";
import { noRange, type QueryRange } from "../../query/plan.js";
import { tableSql } from "../../query/query-service.js";
import type { QueryCaller } from "../../query/statement.js";
import { openTicket, sealTicket, type StatementContent } from "../../query/ticket.js";
import { parseTimeNs } from "../../runtime/text/time-text.js";
import { underSignals } from "telemetry-service-client/shared/abort";
import { onAbort } from "../../runtime/aborts.js";
import { ServiceError } from "../../runtime/errors.js";
import { decodeCriteria, encodePollInfo } from "../../wire/flight/flight-actions.js";
import { type ArrowField, encapsulateMessage, encodeSchemaMessage } from "../../wire/flight/flight-arrow.js";
import {
  decodeAny,
  decodeCommand,
  decodeCommandStatementQuery,
  decodeFlightDescriptor,
  decodeStatementHandle,
  decodeTicket,
  encodeFlightInfo,
  encodePathDescriptor,
  encodeSchemaResult,
  encodeStatementTicket,
  flightSqlNames,
  objectsHeader,
} from "../../wire/flight/flight-protobuf.js";
import type { Call, FlightContext } from "./context.js";
import { authenticateCall } from "./credentials.js";
import type { MessageBuffers } from "./message-buffers.js";
import { likePattern, type MetadataResult, metadataResult } from "./metadata/metadata.js";
import { engineOf } from "./session.js";
import { notFlightSql, readOnly, unimplemented } from "./status.js";

/** GetFlightInfo. @returns an encoded FlightInfo */
export async function getFlightInfo(context: FlightContext, call: Call, descriptor: Buffer): Promise<Buffer> {
  return (await flightOf(context, call, descriptor)).info;
}

/** PollFlightInfo: a flight can be fetched as soon as it is known. @returns an encoded PollInfo */
export async function pollFlightInfo(context: FlightContext, call: Call, descriptor: Buffer): Promise<Buffer> {
  const { info, expiresMs } = await flightOf(context, call, descriptor);
  return encodePollInfo(info, expiresMs);
}

/** GetSchema. @returns an encoded SchemaResult */
export async function getSchema(context: FlightContext, call: Call, descriptor: Buffer): Promise<Buffer> {
  const caller = await authenticateCall(context.authenticator, call);
  rangeOf(call.metadata);
  const target = await targetOf(context, caller, descriptor);
  if (target.kind === "metadata") {
    return encodeSchemaResult(schemaBytes(target.result.fields));
  }
  const { sql, declared, sets } = target.statement;
  const prepared =
    declared.length > 0 && sets.length === 0 ? (await context.queries.prepare(caller, sql, call.signal)).fields : [];
  // Without columns only values tell which there are.
  const fields = prepared.length > 0 ? prepared : await fieldsOf(context, caller, target.statement, call.signal);
  return encodeSchemaResult(schemaBytes(fields));
}

/** ListFlights: one flight per table whose name matches the criteria, a pattern; empty: all. */
export async function listFlights(context: FlightContext, call: Call, criteria: Buffer): Promise<Buffer[]> {
  const caller = await authenticateCall(context.authenticator, call);
  const text = decodeCriteria(criteria);
  const matches = likePattern(text === "" ? "%" : text);
  const range = rangeOf(call.metadata);
  const flights: Buffer[] = [];
  const names = await context.queries.tableNames(caller);
  for (const name of names.filter((table) => matches(table))) {
    const fields = await context.queries.describeTable(caller, name, call.signal);
    const statement = { ...textStatement(tableSql(name)), range };
    const descriptor = encodePathDescriptor([name]);
    flights.push(statementFlight(context, caller, descriptor, statement, fields).info);
  }
  return flights;
}

/** DoGet: writes the result of a ticket. @param onSent told the bytes of each message */
export async function sendResult(
  context: FlightContext,
  call: ServerWritableStream<Buffer, Buffer>,
  callSignal: AbortSignal,
  onSent: (bytes: number) => void,
): Promise<void> {
  const caller = await authenticateCall(context.authenticator, call);
  const ticket = decodeAny(decodeTicket(call.request));
  if (ticket.name !== flightSqlNames.ticketStatementQuery) {
    const result = metadataResult(context.queries, caller, ticket);
    if (result === null) {
      throw notFlightSql(ticket.name);
    }
    const messages = encodeRows(result.fields, await result.rows(callSignal));
    for (const message of messages) {
      await write(call, message, callSignal, context.buffers);
    }
    return;
  }
  const handle = decodeStatementHandle(ticket.value);
  const { ticketSecret, clock } = context;
  const statement = openTicket(ticketSecret, caller.principal, "ticket", handle, clock.nowMs());
  await context.running.run(statement.id, callSignal, async (signal) => {
    const { sql, range, engine } = statement;
    const request = { sql, range, sets: setsOf(statement), ...(engine === undefined ? {} : { engine }) };
    const stream = await context.queries.run(caller, request, signal);
    const headers = new Metadata();
    headers.set(objectsHeader, String(stream.objects));
    call.sendMetadata(headers);
    await underSignals([signal, stream.signal], (either) => forward(call, stream, context.buffers, either, onSent));
  });
}

/** Sends messages. */
async function forward(
  call: ServerWritableStream<Buffer, Buffer>,
  stream: AsyncIterable<Uint8Array>,
  buffers: MessageBuffers,
  signal: AbortSignal,
  onSent: (bytes: number) => void,
): Promise<void> {
  // One message is being written while the next is fetched: a reader that stalls stops the query. A message is copied
  // before its write begins, here or by grpc-js, so that the next may be asked for.
  let writing: Promise<void> = Promise.resolve();
  for await (const message of stream) {
    await writing;
    writing = write(call, message, signal, buffers);
    writing.catch(() => undefined); // awaited above or below; until then it must not count as unhandled
    onSent(message.length);
  }
  await writing;
}

/** Resolves when the transport has taken the message: its flow control is the reader's pace. */
function write(
  call: ServerWritableStream<Buffer, Buffer>,
  message: Uint8Array,
  signal: AbortSignal,
  buffers: MessageBuffers,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = onAbort(signal, reject);
    if (signal.aborted) {
      return;
    }
    const { buffer, byteOffset, byteLength } = message;
    call.write(buffers.framed(Buffer.from(buffer, byteOffset, byteLength)), (error: Error | null | undefined) => {
      stop();
      if (error === null || error === undefined) {
        resolve();
      } else {
        reject(new ServiceError("CANCELLED", undefined, { cause: error }));
      }
    });
  });
}

type Target =
  | { readonly kind: "statement"; readonly statement: StatementContent }
  | { readonly kind: "metadata"; readonly result: MetadataResult; readonly command: Uint8Array };

interface Flight {
  readonly info: Buffer;
  readonly expiresMs: number | null;
}

async function flightOf(context: FlightContext, call: Call, descriptor: Buffer): Promise<Flight> {
  const { metadata, signal } = call;
  const caller = await authenticateCall(context.authenticator, call);
  const target = await targetOf(context, caller, descriptor);
  if (target.kind === "metadata") {
    // Every caller may ask this, on any server and at any time: the command is its own ticket.
    const schema = schemaBytes(target.result.fields);
    const { command: ticket } = target;
    return {
      info: encodeFlightInfo({ schema, descriptor, ticket, expiresMs: null }),
      expiresMs: null,
    };
  }
  const statement = { ...target.statement, range: rangeOf(metadata), ...engineOf(metadata) };
  const fields = await fieldsOf(context, caller, statement, signal);
  return statementFlight(context, caller, descriptor, statement, fields);
}

/** The flight of a statement whose columns are known. */
function statementFlight(
  context: FlightContext,
  caller: QueryCaller,
  descriptor: Buffer,
  statement: StatementContent,
  fields: readonly ArrowField[],
): Flight {
  const schema = schemaBytes(fields);
  const expiresMs = context.clock.nowMs() + context.ticketLifeMs;
  const handle = sealTicket(context.ticketSecret, caller.principal, "ticket", statement, expiresMs);
  const ticket = encodeStatementTicket(handle);
  return { info: encodeFlightInfo({ schema, descriptor, ticket, expiresMs }), expiresMs };
}

/** The columns of a statement's result. @throws ServiceError BAD_REQUEST also when its parameters have no values */
async function fieldsOf(
  context: FlightContext,
  caller: QueryCaller,
  statement: StatementContent,
  signal: AbortSignal,
): Promise<readonly ArrowField[]> {
  const [first] = setsOf(statement);
  return context.queries.describe(caller, statement.sql, signal, first);
}

/**
 * The values of a statement's parameters, for each time that it runs.
 * @throws ServiceError BAD_REQUEST without values
 */
function setsOf({ declared, sets }: StatementContent): BoundParameter[][] {
  if (declared.length === 0) {
    return [];
  }
  if (sets.length === 0) {
    throw new ServiceError(
      "BAD_REQUEST",
      `The statement takes ${declared.length} parameters and none are bound; bind them by DoPut.`,
    );
  }
  return sets.map((values) => bindParameters(declared, values));
}

/** What a descriptor asks for. @throws ServiceError BAD_REQUEST, NOT_FOUND, UNIMPLEMENTED */
async function targetOf(context: FlightContext, caller: QueryCaller, descriptorBytes: Uint8Array): Promise<Target> {
  const descriptor = decodeFlightDescriptor(descriptorBytes);
  if (descriptor.command.length === 0) {
    return pathTarget(context, caller, descriptor.path);
  }
  const command = decodeCommand(descriptor.command);
  if (command.kind === "text") {
    return textTarget(command.text);
  }
  switch (command.name) {
    case flightSqlNames.statementQuery: {
      const statement = decodeCommandStatementQuery(command.value);
      if (statement.transactionId.length > 0) {
        throw unimplemented("A transaction");
      }
      return textTarget(statement.query);
    }
    case flightSqlNames.preparedStatementQuery: {
      const handle = context.bound.resolve(decodeStatementHandle(command.value));
      const { ticketSecret, clock } = context;
      const statement = openTicket(ticketSecret, caller.principal, "statement", handle, clock.nowMs());
      return { kind: "statement", statement };
    }
    case flightSqlNames.statementUpdate:
    case flightSqlNames.preparedStatementUpdate:
    case flightSqlNames.statementIngest:
      throw readOnly();
    default: {
      const result = metadataResult(context.queries, caller, command);
      if (result === null) {
        throw notFlightSql(command.name);
      }
      return { kind: "metadata", result, command: descriptor.command };
    }
  }
}

function textTarget(sql: string): Target {
  return { kind: "statement", statement: textStatement(sql) };
}

function textStatement(sql: string): StatementContent {
  return { sql, range: noRange, declared: [], sets: [] };
}

async function pathTarget(context: FlightContext, caller: QueryCaller, path: readonly string[]): Promise<Target> {
  const [name, ...rest] = path;
  if (name === undefined) {
    throw new ServiceError(
      "BAD_REQUEST",
      "The descriptor holds neither a command nor a path; send a CommandStatementQuery.",
    );
  }
  const names = await context.queries.tableNames(caller);
  const table = rest.length === 0 ? names.find((known) => known === name.toLowerCase()) : undefined;
  if (table === undefined) {
    throw new ServiceError("NOT_FOUND", "There is no flight of that path.");
  }
  return textTarget(tableSql(table));
}

function schemaBytes(fields: readonly ArrowField[]): Uint8Array {
  return encapsulateMessage(encodeSchemaMessage(fields));
}

/** The time range in the metadata. @throws ServiceError BAD_REQUEST */
function rangeOf(metadata: Metadata): QueryRange {
  const read = (name: string): bigint | null => {
    const value = metadata.get(name)[0];
    return value === undefined ? null : parseTimeNs(name, String(value));
  };
  const range = { beginNs: read("query-range-begin"), endNs: read("query-range-end") };
  if (range.beginNs !== null && range.endNs !== null && range.beginNs > range.endNs) {
    throw new ServiceError("BAD_REQUEST", "query-range-begin is after query-range-end.");
  }
  return range;
}
