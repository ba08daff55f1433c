/** Rows of queries over Flight SQL as plain values, through a client that nobody here wrote. */
import { FlightSQLClient } from "@firetiger-oss/flight-sql-client";

/** A plain value: no Arrow vector or row, no bigint. */
type PlainValue = string | number | boolean | null | PlainValue[] | { [name: string]: PlainValue };

export type PlainRow = Record<string, PlainValue>;

/** Runs a statement and gives its rows. */
export type FlightQuery = (sql: string) => Promise<PlainRow[]>;

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
export function plainRowsOf(rows: Iterable<unknown>): PlainRow[] {
  return Array.from(rows, (row) => plain(row) as PlainRow);
}

/**
 * Runs a statement and gives its rows. The client gives up a connection after five seconds, which a busy machine may
 * need: nothing has been asked by then.
 */
export async function plainRows({ port, key }: FlightTarget, sql: string, tries = 5): Promise<PlainRow[]> {
  const client = new FlightSQLClient({ host: "127.0.0.1", port, plaintext: true, token: key });
  try {
    return plainRowsOf(await client.execute(sql));
  } catch (error) {
    if (tries > 1 && error instanceof Error && error.message.startsWith("Failed to connect")) {
      return await plainRows({ port, key }, sql, tries - 1);
    }
    throw error;
  } finally {
    await client.close();
  }
}
