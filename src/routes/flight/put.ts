/**
 * DoPut: values for the parameters of a prepared statement (FlightSql.proto
 * CommandPreparedStatementQuery). Every other put would write, and is refused.
 */
import type { ServerDuplexStream } from "@grpc/grpc-js";

import { principalIdentity } from "../../auth/principal.js";
import { BatchValues } from "../../query/arrow/parameter-values.js";
import { bindParameters } from "../../query/gate/parameters.js";
import { openTicket, sealTicket, type StatementContent, statementLifeMs } from "../../query/ticket.js";
import { onAbort } from "../../runtime/aborts.js";
import { ServiceError, toServiceError } from "../../runtime/errors.js";
import { decodeFlightData, encodeBoundStatement } from "../../wire/flight/flight-actions.js";
import { readMessage } from "../../wire/flight/flight-arrow-read.js";
import {
  decodeAny,
  decodeFlightDescriptor,
  decodeStatementHandle,
  flightSqlNames,
} from "../../wire/flight/flight-protobuf.js";
import type { FlightContext } from "./context.js";
import { authenticateCall } from "./credentials.js";
import { notFlightSql, readOnly } from "./status.js";

/** Most rows of values, and most bytes of Arrow messages, of one DoPut: they travel in the handle. */
const maxSets = 1000;
const maxBytes = 1 << 20;
/**
 * Longest handle with values: a FlightInfo holds it twice, in the descriptor and in the ticket, and many clients
 * take messages of 4 MiB.
 */
const maxHandleBytes = 1.5 * (1 << 20);

/** Reads a DoPut to its end. @returns the encoded PutResult */
export async function doPut(
  context: FlightContext,
  call: ServerDuplexStream<Buffer, Buffer>,
  signal: AbortSignal,
): Promise<Buffer> {
  const { principal } = await authenticateCall(context.authenticator, call);
  const { ticketSecret, clock } = context;
  const upload: Upload = { handle: null, statement: null, values: null, bytes: 0 };
  await eachMessage(call, signal, (message) => {
    receive(upload, message, (handle) => openTicket(ticketSecret, principal, "statement", handle, clock.nowMs()));
  });
  const { handle, statement, values } = upload;
  if (handle === null || statement === null) {
    throw bad("The stream is empty.");
  }
  const { declared } = statement;
  if (values === null) {
    throw bad("The stream holds no schema.");
  }
  const { fields, sets } = values;
  if (sets.length === 0 && fields.length > 0) {
    throw bad("No row of values was bound.");
  }
  for (const set of sets) {
    bindParameters(declared, set);
  }
  const content = { ...statement, sets };
  const expiresMs = clock.nowMs() + statementLifeMs;
  const bound = sealTicket(ticketSecret, principal, "statement", content, expiresMs);
  if (bound.length > maxHandleBytes) {
    throw tooLong();
  }
  context.bound.set(principalIdentity(principal), handle, bound);
  return encodeBoundStatement(bound);
}

interface Upload {
  /** Of the statement, from the first message. */
  handle: Uint8Array | null;
  statement: StatementContent | null;
  /** From the schema on. */
  values: BatchValues | null;
  bytes: number;
}

/** Calls `take` for each message until the client has ended, `take` throws or the call is aborted. */
function eachMessage(
  call: ServerDuplexStream<Buffer, Buffer>,
  signal: AbortSignal,
  take: (message: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let failed = false;
    const fail = (error: unknown): void => {
      failed = true;
      reject(toServiceError(error));
    };
    call.on("data", (message: Buffer) => {
      if (failed) {
        return;
      }
      try {
        take(message);
      } catch (error) {
        fail(error);
      }
    });
    call.on("end", resolve);
    onAbort(signal, fail);
  });
}

/** @param open reads a handle, and throws for one that is not the caller's */
function receive(upload: Upload, message: Buffer, open: (handle: Uint8Array) => StatementContent): void {
  const data = decodeFlightData(message);
  upload.bytes += message.length;
  // What is no statement of ours is refused by its first message, before more of it is read.
  if (upload.handle === null) {
    upload.handle = handleOf(data.descriptor);
    if (upload.handle.length > maxHandleBytes) {
      throw tooLong();
    }
    // The handle may have values already, which those that come replace.
    upload.bytes -= data.descriptor.length;
  }
  upload.statement ??= open(upload.handle);
  if (upload.bytes > maxBytes) {
    throw tooMuch();
  }
  if (data.header.length === 0) {
    return;
  }
  const read = readMessage(data.header, data.body, upload.values?.fields ?? []);
  if (read.kind === "schema") {
    if (upload.values !== null) {
      throw bad("The stream holds a second schema.");
    }
    const { declared } = upload.statement;
    if (read.fields.length !== declared.length) {
      throw bad(`The statement takes ${declared.length} parameters and ${read.fields.length} were bound.`);
    }
    upload.values = new BatchValues(read.fields, maxHandleBytes);
    return;
  }
  const { values } = upload;
  if (values === null) {
    throw bad("A record batch came before its schema.");
  }
  if (read.kind === "dictionary") {
    values.addDictionary(read);
    return;
  }
  if (values.sets.length + read.rows > maxSets) {
    throw tooMuch();
  }
  values.addBatch(read);
}

/** The statement that a descriptor names. @throws ServiceError BAD_REQUEST, UNIMPLEMENTED */
function handleOf(descriptorBytes: Uint8Array): Uint8Array {
  const { command } = decodeFlightDescriptor(descriptorBytes);
  if (command.length === 0) {
    throw bad("The first message has no command; send a CommandPreparedStatementQuery.");
  }
  const { name, value } = decodeAny(command);
  switch (name) {
    case flightSqlNames.preparedStatementQuery:
      return decodeStatementHandle(value);
    case flightSqlNames.statementUpdate:
    case flightSqlNames.preparedStatementUpdate:
    case flightSqlNames.statementIngest:
    case flightSqlNames.statementSubstraitPlan:
      throw readOnly();
    default:
      throw notFlightSql(name);
  }
}

function bad(message: string): ServiceError {
  return new ServiceError("BAD_REQUEST", message);
}

function tooLong(): ServiceError {
  return new ServiceError(
    "PAYLOAD_TOO_LARGE",
    `The statement and its values take more than ${maxHandleBytes} bytes as a handle.`,
  );
}

function tooMuch(): ServiceError {
  return new ServiceError("PAYLOAD_TOO_LARGE", `At most ${maxSets} rows and ${maxBytes} bytes of values can be bound.`);
}
