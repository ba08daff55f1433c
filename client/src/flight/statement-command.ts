/** The command of a statement, its parameters bound. */
import type { CallContext, FlightCalls } from "./flight-calls.js";
import { decodeBoundHandle, decodePreparedStatement, encodeSqlMessage } from "./flight-messages.js";
import type { Parameter } from "./parameters.js";

/** Rows of values, one for each `?`. */
export type ParameterRows = readonly (readonly Parameter[])[];

/**
 * The command that runs a text, to be sent to `GetFlightInfo`.
 * @param parameters one value for each `?`; none: the text is not prepared
 * @throws FlightSqlError; TypeError for values of types that cannot be bound
 */
export async function statementCommand(
  calls: FlightCalls,
  sql: string,
  parameters: readonly Parameter[] | undefined,
  context: CallContext,
): Promise<Uint8Array> {
  if (parameters === undefined || parameters.length === 0) {
    return encodeSqlMessage("CommandStatementQuery", { 1: sql });
  }
  const { handle } = await prepareStatement(calls, sql, context);
  return boundCommand(calls, handle, [parameters], context);
}

/** Has a server parse a statement. It has no resource on the server that would have to be closed. */
export async function prepareStatement(
  calls: FlightCalls,
  sql: string,
  context: CallContext,
): Promise<ReturnType<typeof decodePreparedStatement>> {
  const request = encodeSqlMessage("ActionCreatePreparedStatementRequest", { 1: sql });
  const [answer = new Uint8Array(0)] = await calls.action("CreatePreparedStatement", request, context);
  return decodePreparedStatement(answer);
}

/**
 * The command of a prepared statement.
 * @param rows values to bind; null: none
 * @param count of the `?`, where it is known
 */
export async function boundCommand(
  calls: FlightCalls,
  handle: Uint8Array,
  rows: ParameterRows | null,
  context: CallContext,
  count?: number,
): Promise<Uint8Array> {
  const command = (of: Uint8Array): Uint8Array => encodeSqlMessage("CommandPreparedStatementQuery", { 1: of });
  if (rows === null) {
    return command(handle);
  }
  // apache-arrow takes long to load, and most statements have no parameters.
  const { parameterFrames } = await import("./parameters.js");
  // The values travel in a handle of their own, so that two runs at once do not mix them up.
  const [answer] = await calls.put(command(handle), parameterFrames(rows, count), context);
  const bound = answer === undefined ? handle : decodeBoundHandle(answer);
  return command(bound.length === 0 ? handle : bound);
}
