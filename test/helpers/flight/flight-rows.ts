/** Rows of queries over Flight SQL, as plain objects. */
import { FlightSqlError, connect, type QueryOptions } from "telemetry-service-client";
import { staticKey } from "telemetry-service-client";
import { recordOutput } from "../cleartext/cleartext-tap.js";

export interface FlightRows {
  rows(sql: string, options?: QueryOptions): Promise<Record<string, unknown>[]>;
  /** Status and sentence of a query that fails; throws when it does not. */
  failure(sql: string, options?: QueryOptions): Promise<{ status: number; message: string }>;
  close(): void;
}

const withBigints = (_name: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);

/** Connects; `clientName` is the user agent. */
export function connectRows(port: number, key: string, clientName?: string): FlightRows {
  const client = connect({
    uri: `grpc://127.0.0.1:${port}`,
    auth: staticKey(key),
    ...(clientName === undefined ? {} : { clientName }),
  });
  const rows = async (sql: string, options?: QueryOptions): Promise<Record<string, unknown>[]> => {
    const { batches } = await client.query(sql, options);
    const found: Record<string, unknown>[] = [];
    for await (const batch of batches) {
      for (const row of batch) {
        found.push(row.toJSON());
      }
    }
    recordOutput("response", found.map((row) => JSON.stringify(row, withBigints)).join("\n"));
    return found;
  };
  return {
    rows,
    failure: async (sql, options) => {
      try {
        await rows(sql, options);
      } catch (error) {
        if (error instanceof FlightSqlError) {
          recordOutput("response", error.message);
          return { status: error.status, message: error.message };
        }
        throw error;
      }
      throw new Error(`did not fail: ${sql.slice(0, 200)}`);
    },
    close: () => {
      client.close();
    },
  };
}
