/** A monolith whose lake holds a shop, all of it merged. */
import { connectReader, type FlightReader } from "../../../bench/load/flight-reader.js";
import { loadShop, mergeAll } from "../../../bench/shop/load.js";
import type { Shop } from "../../../bench/shop/shop.js";
import { mintAnalyticsKey, mintIngestionKey } from "../../../src/auth/keys/keys.js";
import type { Sql } from "../../../src/db/sql.js";
import { createTestDatabase } from "../postgres/postgres.js";
import { temporaryDirectory } from "../servers/monolith.js";
import { startServerProcess } from "../servers/server-process.js";
import { shopNs } from "./shop-model.js";

export interface ShopServer {
  readonly sql: Sql;
  /** `host:port` of Flight SQL, and a key for it. */
  readonly address: string;
  readonly key: string;
  readonly reader: FlightReader;
  stop(): Promise<void>;
}

/**
 * @param senders that load it at once
 * @param env more of the server's environment
 */
export async function startShopServer(
  shop: Shop,
  senders: number,
  env: Readonly<Record<string, string>> = {},
): Promise<ShopServer> {
  const database = await createTestDatabase();
  const data = await temporaryDirectory();
  const { key } = await mintAnalyticsKey(database.sql, { name: "test", createdBy: "test" });
  const sends = await mintIngestionKey(database.sql, { name: "test", audience: "public", createdBy: "test" });
  const server = await startServerProcess(
    "telemetry-monolith",
    {
      SVC_ROLES: "ingestion,analytics",
      SVC_SQL_CONNECTION_STRING: database.connectionString,
      SVC_DATA_DIR: data.directory,
      SVC_INGESTION_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      ...env,
    },
    /OTLP\/HTTP on (http:\/\/127\.0\.0\.1:[1-9]\d*)[^]*"msg":"ready"/u,
  );
  const address = /grpc:\/\/(?<address>127\.0\.0\.1:\d+)/u.exec(server.output())?.groups?.["address"] ?? "";
  const reader = connectReader(address, key);
  await loadShop(shop, { url: server.url, key: sends.key, senders });
  await mergeAll(reader, database.sql);
  return {
    sql: database.sql,
    address,
    key,
    reader,
    stop: async () => {
      reader.close();
      await server.end("SIGTERM");
      await data.remove();
      await database.drop();
    },
  };
}

/** The text with its times as of the shop's end, so that rows at a bound are on one side of it. */
export function atTheEnd(sql: string, shop: Shop): string {
  const endMs = Number((shop.beginNs + BigInt(shopNs)) / 1_000_000n);
  const at = (ms: number): string => `TIMESTAMP '${new Date(ms).toISOString().slice(0, 19)}'`;
  return sql
    .replaceAll(/ago\('(\d+) (minute|hour|day)s?'\)/gu, (_, count: string, unit: string) =>
      at(endMs - Number(count) * ({ minute: 60_000, hour: 3_600_000 }[unit] ?? 86_400_000)),
    )
    .replaceAll("now()", at(endMs));
}
