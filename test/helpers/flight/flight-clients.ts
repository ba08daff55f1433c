/** Flight SQL clients that nobody here wrote, each behind one function from SQL to plain rows. */
import { createFlightSqlClient } from "@lakehouse-rs/flight-sql-client";
import { Client as LanceClient } from "@lancedb/arrow-flight-sql-client";
import { tableFromIPC } from "apache-arrow";

import { type FlightQuery, type FlightTarget, plainRows, plainRowsOf } from "./plain-rows.js";

/** The public clients by package name. */
export const flightClients: Record<string, (target: FlightTarget) => FlightQuery> = {
  "@firetiger-oss/flight-sql-client": (target) => (sql) => plainRows(target, sql),
  "@lakehouse-rs/flight-sql-client with a token": ({ port, key }) => lakehouse(port, { token: key }),
  "@lakehouse-rs/flight-sql-client with a password": ({ port, key }) =>
    lakehouse(port, { username: "anyone", password: key }),
  "@lancedb/arrow-flight-sql-client":
    ({ port, key }) =>
    async (sql) => {
      const client = await LanceClient.connect({
        host: `127.0.0.1:${port}`,
        username: "anyone",
        password: key,
      });
      const result = await client.query(sql);
      return plainRowsOf(await result.collectToObjects());
    },
};

const lakehouse =
  (port: number, credentials: { token: string } | { username: string; password: string }): FlightQuery =>
  async (sql) => {
    const client = await createFlightSqlClient({ host: "127.0.0.1", port, tls: false, headers: [], ...credentials });
    return plainRowsOf(tableFromIPC(await client.query(sql)));
  };
