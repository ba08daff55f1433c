import { PassThrough } from "node:stream";
import { Schema } from "apache-arrow";
import { expect, it } from "vitest";

import { follow } from "../../src/cli/tail-command.js";
import type { FlightSqlClient } from "../../src/flight/flight-sql-client.js";
import type { Row } from "../../src/flight/query-result.js";

it("each look of tail begins an hour before the newest block, also while none of them is asked for", async () => {
  const interrupted = new AbortController();
  const begins: (bigint | Date | undefined)[] = [];
  let minute = 0;
  const query: FlightSqlClient["query"] = async (sql, o) => {
    const newest = sql.includes("max(insert_time)");
    const rows: Row[] = newest ? [{ t: `2026-11-28T10:0${minute++}:00.000000000Z` }] : [];
    if (sql.includes("FROM log_entries")) {
      begins.push(o?.begin);
    }
    if (begins.length === 3) {
      interrupted.abort();
    }
    const read = async function* (): AsyncGenerator<Row> {
      yield* rows;
    };
    const unused = (): never => {
      throw new Error("tail reads rows");
    };
    const schema = new Schema([]);
    return await Promise.resolve({ schema, batches: { [Symbol.asyncIterator]: unused }, table: unused, rows: read });
  };
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const terminal = { stdin, stdout, stderr, interrupted: interrupted.signal, now: Date.now };
  const none = { service: "shop", level: null, grep: null, where: null, json: false };
  expect(await follow({ query }, { ...none, lines: 0, interval: 0.001 }, { terminal })).toBe(130);
  const at = (time: string): bigint => BigInt(Date.parse(`2026-11-28T${time}Z`)) * 1_000_000n;
  expect(begins).toEqual([at("09:00:00"), at("09:01:00"), at("09:02:00")]);
});
