/**
 * `pnpm bench web [--seconds 20] [--rate 50] [--rows 1000000] [--save NAME]`
 *
 * web.mint, web.revoke: latency of `analytics-web-srv` as a process of its own, on the embedded database with durable
 * commits, at `--rate` requests a second; beside them, as a yardstick for the machine, a single insert from the bench
 * itself. web.list: pages of 500 out of `--rows` keys, half of them revoked, with usage of the last day.
 */
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import type { Sql } from "../../src/db/sql.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { makeSigningKey, signToken, startOidcProvider } from "../../test/helpers/auth/auth-oidc-provider.js";
import { atMost, type Figure, figure, noLimit, quantile } from "../figures.js";
import { startBenchDatabase } from "../run/database.js";
import { describeEnvironment } from "../run/machine.js";
import { startProgram } from "../run/program.js";
import { saveResults } from "../run/results.js";
import { count, number, readOptions, text } from "../run/options.js";
import { printTable } from "../run/table.js";

type Row = Record<string, string | number>;

interface Client {
  /** @returns the body as JSON and how long it took. @throws Error for another status than `expected`. */
  send(
    method: string,
    target: string,
    expected: number,
    body?: unknown,
  ): Promise<{ json: { key_id: string }; ms: number }>;
  close(): void;
}

const ingestion = "/api/ingestion-api-keys";

/** Over kept connections of `node:http`, which takes a third of the time that `fetch` takes for itself. */
function clientOf(url: string, cookie: string): Client {
  const agent = new Agent({ keepAlive: true });
  return {
    async send(method, target, expected, body) {
      const text = body === undefined ? "" : JSON.stringify(body);
      const startMs = performance.now();
      const sent = request(`${url}${target}`, {
        agent,
        method,
        headers: {
          cookie,
          "content-type": "application/json",
          "content-length": Buffer.byteLength(text),
        },
      });
      sent.end(text);
      const [response] = (await once(sent, "response")) as [IncomingMessage];
      const chunks: Buffer[] = [];
      for await (const chunk of response) {
        chunks.push(chunk as Buffer);
      }
      const ms = performance.now() - startMs;
      const answer = Buffer.concat(chunks).toString();
      if (response.statusCode !== expected) {
        throw new Error(`${method} ${target}: ${answer}`);
      }
      return { json: JSON.parse(answer) as { key_id: string }, ms };
    },
    close() {
      agent.destroy();
    },
  };
}

function figures(name: string, times: readonly number[], targetMs: number): Row {
  const at = (share: number): string => quantile(times, share).toFixed(1);
  return {
    what: name,
    requests: times.length,
    "p50 ms": at(0.5),
    "p99 ms": at(0.99),
    "max ms": at(1),
    "target ms": targetMs,
  };
}

/** Sends at a fixed rate, whether or not earlier requests are answered. */
async function atRate(rate: number, count: number, request: (i: number) => Promise<number>): Promise<number[]> {
  const startMs = performance.now();
  const running: Promise<number>[] = [];
  for (let i = 0; i < count; i++) {
    await sleep(Math.max(0, startMs + (i * 1000) / rate - performance.now()));
    const answered = request(i);
    // Thrown below, after the last was sent.
    answered.catch(() => undefined);
    running.push(answered);
  }
  return await Promise.all(running);
}

async function fill(sql: Sql, rows: number): Promise<void> {
  await sql`
    insert into ingestion_api_keys
      (key_id, key_hash, name, created_at, created_by, revoked_at, revoked_by, audience)
    select gen_random_uuid(), sha256(i::text::bytea), 'key ' || i, now() - i * interval '1 second',
      'seed', case when i % 2 = 0 then now() end, case when i % 2 = 0 then 'seed' end, 'seed'
    from generate_series(1, ${rows}::int) i`;
  await sql`
    insert into api_key_usage (key_id, hour, requests, bytes, records)
    select key_id, date_trunc('hour', now(), 'UTC') - h * interval '1 hour', 1, 1, 1
    from (select key_id from ingestion_api_keys order by created_at desc limit 20000) k,
      generate_series(0, 47) h`;
  // As autovacuum and the checkpointer leave the tables of a server that has been running for a while.
  await sql`vacuum analyze`;
  await sql`checkpoint`;
}

/** What the machine has to give at the moment: one row, one durable commit, nothing around it. */
async function bareInserts(sql: Sql, rate: number, count: number): Promise<number[]> {
  await sql`create table bare (id bigint generated always as identity primary key, text text)`;
  return await atRate(rate, count, async () => {
    const startMs = performance.now();
    await sql`insert into bare (text) values ('x')`;
    return performance.now() - startMs;
  });
}

/** See the head of the file. */
export async function benchWeb(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    seconds: number(20, "length of each part", 1),
    rate: count(50, "requests a second"),
    rows: count(1_000_000, "keys that are listed from"),
    save: text(null, "name of the file under bench/results/ that keeps the result"),
  };
  const values = readOptions("web", "the administration server", options, argv);
  const { rate } = values;
  const requests = Math.round(values.seconds * rate);
  const logger = createSilentLogger();
  const dataDirectory = tmpdir();
  const database = await startBenchDatabase({ dataDirectory, maxConnections: 1, logger });
  const { connectionString, sql } = database;
  const key = await makeSigningKey("bench", "ES256");
  const provider = await startOidcProvider({ key });
  const nowSeconds = Math.floor(Date.now() / 1000);
  const token = await signToken(key, {
    iss: provider.issuer,
    aud: provider.clientId,
    sub: "bench",
    email: "bench@example.com",
    iat: nowSeconds,
    exp: nowSeconds + 3600,
  });
  const issuers = [{ issuer: provider.issuer, audience: provider.clientId }];
  const server = await startProgram("analytics-web-srv", {
    environment: {
      SVC_WEB_LISTEN: "127.0.0.1:0",
      SVC_SQL_CONNECTION_STRING: connectionString,
      SVC_OIDC_CONFIG: JSON.stringify({ issuers }),
    },
    until: /web server on (http:\/\/127\.0\.0\.1:\d+)/u,
  });
  const client = clientOf(server.said[1] ?? "", `id_token=${token}`);
  try {
    const rows: Row[] = [];
    const mint = async (audience: string): Promise<{ keyId: string; ms: number }> => {
      const { json, ms } = await client.send("POST", ingestion, 201, { name: "bench", audience });
      return { keyId: json.key_id, ms };
    };
    // Until the optimizing compiler of either thread has seen enough.
    for (let i = 0; i < 1000; i++) {
      await mint("warm-up");
    }
    const keyIds: string[] = [];
    const minting = await atRate(rate, requests, async () => {
      const { keyId, ms } = await mint("warm-up");
      keyIds.push(keyId);
      return ms;
    });
    rows.push(figures(`mint at ${rate}/s`, minting, 15));
    const claiming = await atRate(rate, requests, async (i) => (await mint(`claim-${i}`)).ms);
    rows.push(figures(`claim at ${rate}/s`, claiming, 15));
    const revoking = await atRate(rate, requests, async (i) => {
      const { ms } = await client.send("DELETE", `${ingestion}/${keyIds[i]}`, 200);
      return ms;
    });
    rows.push(figures(`revoke at ${rate}/s`, revoking, 15));
    rows.push(figures(`bare insert at ${rate}/s`, await bareInserts(sql, rate, requests), 15));
    await fill(sql, values.rows);
    for (const query of ["limit=500", "limit=500&include_revoked=false", "limit=500&offset=10000"]) {
      const times: number[] = [];
      for (let i = 0; i < 220; i++) {
        const { ms } = await client.send("GET", `${ingestion}?${query}`, 200);
        if (i >= 20) {
          times.push(ms);
        }
      }
      rows.push(figures(`list ${query} of ${values.rows}`, times, 20));
    }
    printTable("web", rows);
    const result = { environment: describeEnvironment(), settings: values, web: rows };
    console.log(JSON.stringify(result));
    if (values.save !== undefined) {
      saveResults(values.save, result);
    }
    return rows.map((row) => {
      const isYardstick = String(row["what"]).startsWith("bare");
      const isSmall = String(row["what"]).startsWith("list") && values.rows < 1_000_000;
      const bound = isSmall ? noLimit("target is for a million keys") : atMost(Number(row["target ms"]));
      const target = isYardstick ? undefined : bound;
      return figure(`${row["what"]}, p99`, "ms", Number(row["p99 ms"]), target);
    });
  } finally {
    client.close();
    await server.stop();
    await provider.stop();
    await database.stop();
  }
}
