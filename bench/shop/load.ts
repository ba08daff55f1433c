/** Brings a shop into a server: several sender processes over loopback, and then merging until all is merged. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import type { Sql } from "../../src/db/sql.js";
import type { FlightReader } from "../load/flight-reader.js";
import type { Counts, Shop } from "./shop.js";

/** Sends a shop to an ingestion server; returns how many records it took. */
export async function loadShop(
  shop: Shop,
  o: { readonly url: string; readonly key: string; readonly senders: number },
): Promise<Counts> {
  const parts = await Promise.all(
    Array.from({ length: o.senders }, async (_, part) => {
      const child = spawn(
        process.execPath,
        [
          fileURLToPath(new URL("./sender.js", import.meta.url)),
          `--url=${o.url}`,
          `--authorization=Bearer ${o.key}`,
          `--shop=${JSON.stringify(shop, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value))}`,
          `--part=${part}`,
          `--parts=${o.senders}`,
        ],
        { stdio: ["ignore", "pipe", "inherit"] },
      );
      let output = "";
      child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
      const [code] = (await once(child, "close")) as [number];
      if (code !== 0) {
        throw new Error(`a sender exited with ${code}`);
      }
      return JSON.parse(output) as Counts;
    }),
  );
  const sum = (signal: keyof Counts): number => parts.reduce((total, part) => total + part[signal], 0);
  return { logs: sum("logs"), metrics: sum("metrics"), traces: sum("traces") };
}

const tables = ["log_entries", "measures", "histograms", "spans"] as const;

/** Merges into days until no object is left as it came; `reader` is an administrator's. */
export async function mergeAll(reader: FlightReader, sql: Sql): Promise<void> {
  for (const table of tables) {
    while ((await countFresh(sql, table)) > 0) {
      try {
        await reader.read(
          `SELECT count(*) FROM materialize_partitions('${table}', '2020-01-01T00:00:00Z', '2100-01-01T00:00:00Z', 86400)`,
        );
      } catch (error) {
        // A call ends at the query's deadline, and what it has merged stays.
        if (!String(error).includes("DEADLINE_EXCEEDED")) {
          throw error;
        }
      }
    }
  }
}

/** Objects that no merge has taken to days. */
async function countFresh(sql: Sql, table: string): Promise<number> {
  const [row] = await sql<{ objects: number }[]>`
    select count(*)::int as objects from lakehouse_partitions
    where view_set = ${table} and (bucket_seconds is null or bucket_seconds < 86400)`;
  return row?.objects ?? 0;
}
