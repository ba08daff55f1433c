/** Flight SQL clients that nobody here wrote, each behind one function from SQL to plain rows. */
import { FlightSQLClient } from "@firetiger-oss/flight-sql-client";
import { createFlightSqlClient } from "@lakehouse-rs/flight-sql-client";
import { Client as LanceClient } from "@lancedb/arrow-flight-sql-client";
import { tableFromIPC } from "apache-arrow";

/** A plain value: no Arrow vector or row, no bigint. */
export type PlainValue = string | number | boolean | null | PlainValue[] | { [name: string]: PlainValue };

/** Runs a statement and gives its rows. */
export type FlightQuery = (sql: string) => Promise<Record<string, PlainValue>[]>;

/** Where and as whom the clients connect. */
export interface FlightTarget {
  readonly port: number;
  readonly key: string;
}

interface Jsonable {
  toJSON(): unknown;
}

function plain(value: unknown): PlainValue {
  if (typeof value === "bigint") {
    return Number(value);
  }
  if (typeof value !== "object" || value === null) {
    return value as PlainValue;
  }
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    return Array.from(value as unknown as Iterable<unknown>, plain);
  }
  const json = "toJSON" in value ? (value as Jsonable).toJSON() : value;
  if (Array.isArray(json)) {
    return json.map(plain);
  }
  return Object.fromEntries(Object.entries(json as object).map(([name, item]) => [name, plain(item)]));
}

/** Rows as plain objects, whichever copy of apache-arrow made them. */
function rowsOf(rows: Iterable<unknown>): Record<string, PlainValue>[] {
  return Array.from(rows, (row) => plain(row) as Record<string, PlainValue>);
}

/** It gives up a connection after five seconds, which a busy machine may need: nothing has been asked by then. */
async function firetiger({ port, key }: FlightTarget, sql: string, tries = 5): Promise<Record<string, PlainValue>[]> {
  const client = new FlightSQLClient({ host: "127.0.0.1", port, plaintext: true, token: key });
  try {
    return rowsOf(await client.execute(sql));
  } catch (error) {
    if (tries > 1 && error instanceof Error && error.message.startsWith("Failed to connect")) {
      return await firetiger({ port, key }, sql, tries - 1);
    }
    throw error;
  } finally {
    await client.close();
  }
}

/** The public clients by package name. */
export const flightClients: Record<string, (target: FlightTarget) => FlightQuery> = {
  "@firetiger-oss/flight-sql-client": (target) => (sql) => firetiger(target, sql),
  "@lakehouse-rs/flight-sql-client with a token":
    ({ port, key }) =>
    async (sql) => {
      const client = await createFlightSqlClient({
        host: "127.0.0.1",
        port,
        tls: false,
        token: key,
        headers: [],
      });
      return rowsOf(tableFromIPC(await client.query(sql)));
    },
  "@lakehouse-rs/flight-sql-client with a password":
    ({ port, key }) =>
    async (sql) => {
      const client = await createFlightSqlClient({
        host: "127.0.0.1",
        port,
        tls: false,
        username: "anyone",
        password: key,
        headers: [],
      });
      return rowsOf(tableFromIPC(await client.query(sql)));
    },
  "@lancedb/arrow-flight-sql-client":
    ({ port, key }) =>
    async (sql) => {
      const client = await LanceClient.connect({
        host: `127.0.0.1:${port}`,
        username: "anyone",
        password: key,
      });
      const result = await client.query(sql);
      return rowsOf(await result.collectToObjects());
    },
};
