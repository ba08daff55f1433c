/** A monolith with a shop in it that asks a cluster, and a comparison of what both make of a statement. */
import { tableFromIPC } from "apache-arrow";
import { expect } from "vitest";

import type { FlightReader } from "../../../bench/load/flight-reader.js";
import type { Shop } from "../../../bench/shop/shop.js";
import type { Sql } from "../../../src/db/sql.js";
import type { EngineChoice } from "../../../src/query/cluster/engine-choice.js";
import { ipcOf } from "../flight/flight-ipc.js";
import { shopNs } from "./shop-model.js";
import { startShopServer } from "./shop-server.js";
import { noon } from "../noon.js";

/** What is in the lake. */
export const clusterShop: Shop = {
  seed: 1,
  spans: 3000,
  logs: 3000,
  points: 20_000,
  bigSpans: 100,
  beginNs: noon - BigInt(shopNs),
};

type Row = readonly unknown[];

/** Rows, and the names and types of their columns. */
export interface Answer {
  readonly types: readonly string[];
  readonly rows: readonly Row[];
}

type OnMessage = (messages: number) => Promise<void> | void;

/** A server over a loaded lake. */
export interface ClusterWorld {
  readonly sql: Sql;
  readonly reader: FlightReader;
  /** The answer of an engine, numbers with twelve digits. @param onMessage told the number of each message that came */
  rowsOf(sql: string, engine: EngineChoice, onMessage?: OnMessage): Promise<Answer>;
  /** Expects that both engines give the same; returns the number of rows. @param ordered in the same order */
  compare(sql: string, ordered?: boolean): Promise<number>;
  stop(): Promise<void>;
}

/**
 * @param uri of the cluster
 * @param env more of the server's environment
 */
export async function startClusterWorld(
  uri: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ClusterWorld> {
  const server = await startShopServer(clusterShop, 1, {
    SVC_QUERY_CLUSTER_URI: uri,
    SVC_QUERY_CLUSTER_MIN_BYTES: "1",
    ...env,
  });
  const { reader, sql } = server;
  const rowsOf: ClusterWorld["rowsOf"] = (text, engine, onMessage = () => undefined) =>
    answerOf(reader, text, engine, onMessage);
  return {
    sql,
    reader,
    rowsOf,
    compare: async (text, ordered = false) => {
      const [here, there] = [await rowsOf(text, "local"), await rowsOf(text, "cluster")];
      expect(there.types).toEqual(here.types);
      expect(ordered ? there.rows : sortedRows(there)).toEqual(ordered ? here.rows : sortedRows(here));
      return here.rows.length;
    },
    stop: () => server.stop(),
  };
}

async function answerOf(
  reader: FlightReader,
  sql: string,
  engine: EngineChoice,
  onMessage: OnMessage,
): Promise<Answer> {
  const parts: Uint8Array[] = [];
  let messages = 0;
  for await (const message of await reader.open(sql, { "query-engine": engine })) {
    parts.push(...ipcOf(message as Buffer));
    messages++;
    await onMessage(messages);
  }
  const table = tableFromIPC(parts);
  const columns = table.schema.fields.map((_, i) => table.getChildAt(i));
  return {
    types: table.schema.fields.map(({ name, type }) => `${name} ${String(type)}`),
    rows: Array.from({ length: table.numRows }, (_, row) => columns.map((column) => plain(column?.get(row)))),
  };
}

/** Floating point numbers to twelve digits: the order of adding up differs. */
function plain(value: unknown): unknown {
  if (typeof value === "number") {
    return Number(value.toPrecision(12));
  }
  return typeof value === "bigint" ? String(value) : value;
}

/** Rows as texts in an order of their own. */
export function sortedRows({ rows }: Answer): string[] {
  return rows.map((row) => JSON.stringify(row)).toSorted();
}
