/** Prepared statements and their values, call by call. */
import { type DataType, Table, tableFromIPC, tableToIPC, type Vector, vectorFromArray } from "apache-arrow";

import { arrowMessages } from "./arrow-messages.js";
import { any, decode, descriptor, encode, type FlightCalls, valueOfAny } from "./flight-standard.js";

/** What the server says of a statement. */
export interface Prepared {
  readonly handle: Buffer;
  readonly parameters: readonly string[];
  readonly columns: readonly string[];
}

export async function prepareWith(calls: FlightCalls, query: string): Promise<Prepared> {
  const [result] = await calls.action(
    "CreatePreparedStatement",
    any("ActionCreatePreparedStatementRequest", { query }),
  );
  const found = decode("ActionCreatePreparedStatementResult", valueOfAny(result ?? Buffer.alloc(0)));
  const names = (schema: unknown): string[] =>
    (schema as Uint8Array).length === 0
      ? []
      : tableFromIPC(schema as Uint8Array).schema.fields.map(({ name, type }) => `${name}: ${String(type)}`);
  return {
    handle: found["prepared_statement_handle"] as Buffer,
    parameters: names(found["parameter_schema"]),
    columns: names(found["dataset_schema"]),
  };
}

export function command(handle: Uint8Array): Buffer {
  return any("CommandPreparedStatementQuery", { prepared_statement_handle: handle });
}

/** Messages of a DoPut: an IPC stream cut into FlightData. */
export function flightData(handle: Uint8Array, table: Table): Buffer[] {
  return arrowMessages(tableToIPC(table, "stream")).map(({ header, body }, i) =>
    encode("FlightData", {
      data_header: header,
      data_body: body,
      ...(i === 0 && {
        flight_descriptor: decode("FlightDescriptor", descriptor(command(handle))),
      }),
    }),
  );
}

export async function bindWith(calls: FlightCalls, handle: Uint8Array, table: Table): Promise<Buffer> {
  const [result] = await calls.duplex("DoPut", flightData(handle, table));
  const metadata = decode("PutResult", result ?? Buffer.alloc(0))["app_metadata"] as Buffer;
  return decode("DoPutPreparedStatementResult", metadata)["prepared_statement_handle"] as Buffer;
}

/** One column for each value, called by its number. */
export function table(...values: readonly (readonly [unknown, DataType])[]): Table {
  return new Table(
    Object.fromEntries(
      values.map(([value, type], i): [string, Vector] => [
        String(i + 1),
        vectorFromArray(Array.isArray(value) ? value : [value], type),
      ]),
    ),
  );
}

export async function rows(from: FlightCalls, handle: Uint8Array): Promise<unknown[]> {
  return Array.from(await from.table(command(handle)), (row) => row.toJSON());
}
