/**
 * A web server over a fresh database and a real identity provider, and people who are logged in.
 *
 * Everything it logs, answers and counts is kept; when it stops, all of that and every row of its database is searched
 * for the cleartext of every key that was minted, which may be in the responses of the mints and nowhere else.
 */
import { createHash } from "node:crypto";

import { pino } from "pino";

import { parseConfig } from "../../../src/runtime/config/parse.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { startWebServer, type WebServer } from "../../../src/servers/web.js";
import { components, operations } from "../../../src/wire/web/admin-api.js";
import type { Operation } from "../../../src/wire/web/operation.js";
import {
  makeSigningKey,
  type SigningKey,
  signToken,
  startOidcProvider,
  type TestProvider,
} from "../auth/auth-oidc-provider.js";
import { recordOutput } from "../cleartext/cleartext-tap.js";
import { schemaProblem } from "./json-schema.js";
import { createTestDatabase, type TestDatabase } from "../postgres/postgres.js";

/** The identity provider of a test file: start one before all tests and stop it after. */
export interface Identities {
  readonly provider: TestProvider;
  readonly key: SigningKey;
  /** The `Cookie` field of somebody who is logged in under an email. */
  cookie(email: string, claims?: Record<string, unknown>): Promise<string>;
  /** The same of an identity without an email. */
  anonymousCookie(subject: string): Promise<string>;
  /** Value for `SVC_OIDC_CONFIG`. */
  readonly config: string;
  stop(): Promise<void>;
}

export async function startIdentities(): Promise<Identities> {
  const key = await makeSigningKey("web-test", "ES256");
  const provider = await startOidcProvider({ key });
  const cookieOf = async (claims: Record<string, unknown>): Promise<string> => {
    const nowSeconds = Math.floor(Date.now() / 1000);
    const token = await signToken(key, {
      iss: provider.issuer,
      aud: provider.clientId,
      iat: nowSeconds,
      exp: nowSeconds + 3600,
      ...claims,
    });
    return `id_token=${token}`;
  };
  return {
    provider,
    key,
    cookie: (email, claims) => cookieOf({ sub: `sub-${email}`, email, ...claims }),
    anonymousCookie: (sub) => cookieOf({ sub }),
    config: JSON.stringify({
      issuers: [{ issuer: provider.issuer, audience: provider.clientId }],
    }),
    stop: () => provider.stop(),
  };
}

/** A response, its body read. */
export interface WebAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON; undefined without one. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
}

/** What a request has beside method and path. */
export interface WebRequestOptions {
  readonly cookie?: string;
  /** Sent as JSON, unless it is text or bytes. */
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

export interface TestWeb {
  readonly server: WebServer;
  /** With the base path. */
  readonly url: string;
  readonly database: TestDatabase;
  /** Lines of the log, without any redaction. */
  readonly log: readonly string[];
  /** A request from a client that sends JSON; `path` begins below the base path. */
  request(method: string, path: string, o?: WebRequestOptions): Promise<WebAnswer>;
  /** Number of rows that a statement counts as `n`. */
  count(statement: string): Promise<number>;
  stop(): Promise<void>;
}

export interface TestWebOptions {
  readonly identities: Identities;
  readonly environment?: Record<string, string>;
  /** Emails that replace the seeded `*` of the group admins; by default it stays. */
  readonly admins?: readonly string[];
  /** Another server over the same database, which outlives this one. */
  readonly beside?: Pick<TestWeb, "database">;
  /** An existing database, dropped by this server's `stop`. */
  readonly database?: TestDatabase;
  /** Another way to the database, for example another role. */
  readonly connectionString?: (original: string) => string | null;
}

export async function startTestWeb(o: TestWebOptions): Promise<TestWeb> {
  const database = o.beside?.database ?? o.database ?? (await createTestDatabase());
  if (o.admins !== undefined) {
    await setAdmins(database, o.admins);
  }
  const log: string[] = [];
  const record = (line: string): void => {
    recordOutput("log", line);
    log.push(line);
  };
  const logger = pino({ level: "trace" }, { write: record });
  const metrics = createMetrics({ processMetrics: true });
  const through = o.connectionString ?? ((original: string) => original);
  const server = await startWebServer({
    config: parseConfig("web", [], {
      SVC_WEB_LISTEN: "127.0.0.1:0",
      SVC_OIDC_CONFIG: o.identities.config,
      ...o.environment,
    }),
    connectionString: through(database.connectionString),
    logger,
    metrics,
  });
  const recorder = createRecorder();
  return {
    server,
    url: server.url,
    database,
    log,
    request: (method, path, options) => recorder.request(server.url, method, path, options),
    async count(statement) {
      const [row] = await database.sql.unsafe<{ n: number }[]>(statement);
      return Number(row?.n);
    },
    async stop() {
      const exposition = await metrics.text();
      await server.stop();
      const rows = await dump(database);
      recorder.assertNoLeak({ log: log.join(""), metrics: exposition, database: rows });
      if (o.beside === undefined) {
        await database.drop();
      }
    },
  };
}

/** Replaces the seeded `*` of the group admins. */
export async function setAdmins(database: TestDatabase, emails: readonly string[]): Promise<void> {
  await database.sql`delete from group_members where group_name = 'admins'`;
  for (const email of emails) {
    await database.sql`
      insert into group_members (group_name, member, created_by)
      values ('admins', ${`user:${email}`}, 'test')`;
  }
}

/** Sends requests, checks every answer against the documented schemas, and remembers all of it. */
export interface Recorder {
  request(url: string, method: string, path: string, o?: WebRequestOptions): Promise<WebAnswer>;
  /** Throws when a minted key, its random part or its hash is where it must not be. */
  assertNoLeak(places: Readonly<Record<string, string>>): void;
}

export function createRecorder(): Recorder {
  const keys: string[] = [];
  const texts: string[] = [];
  return {
    async request(url, method, path, o = {}) {
      const body = bodyOf(o.body);
      const response = await fetch(`${url}${path}`, {
        method,
        redirect: "manual",
        headers: {
          ...(o.cookie === undefined ? {} : { cookie: o.cookie }),
          ...(method === "GET" || method === "HEAD" ? {} : { "content-type": "application/json" }),
          ...o.headers,
        },
        ...(body === undefined ? {} : { body }),
      });
      const text = await response.text();
      const json: unknown = text === "" ? undefined : JSON.parse(text);
      const minted = method === "POST" && path.endsWith("-api-keys") && response.status === 201;
      if (minted) {
        const { key, ...rest } = json as { key: string };
        keys.push(key);
        texts.push(JSON.stringify(rest));
      } else {
        texts.push(text);
      }
      texts.push(JSON.stringify([...response.headers]));
      checkAnswer(method, path, response.status, json);
      return { status: response.status, headers: response.headers, text, json };
    },
    assertNoLeak(places) {
      const all = { ...places, responses: texts.join("\n") };
      for (const key of keys) {
        const digest = createHash("sha256").update(key).digest();
        for (const [place, text] of Object.entries(all)) {
          if (text.includes(key.slice(4, -6))) {
            throw new Error(`a minted key is in: ${place}`);
          }
          const hashes = [digest.toString("hex"), digest.toString("base64")];
          if (place !== "database" && hashes.some((hash) => text.includes(hash))) {
            throw new Error(`the hash of a key is in: ${place}`);
          }
        }
      }
    },
  };
}

function bodyOf(body: unknown): string | Uint8Array | undefined {
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    return body;
  }
  return JSON.stringify(body);
}

/** Every answer of an admin route has a documented status and shape. */
function checkAnswer(method: string, path: string, status: number, json: unknown): void {
  if (!path.startsWith("/api/") || method === "HEAD" || method === "OPTIONS") {
    return;
  }
  const bare = path.split("?")[0] ?? "";
  const operation = Object.values<Operation>(operations).find(
    (known) => known.method === method && new RegExp(`^${known.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(bare),
  );
  const response = operation?.responses[status];
  if (status >= 400 && response === undefined) {
    const problem = schemaProblem(components.Error, json, components);
    if (problem !== null) {
      throw new Error(`${method} ${path} ${status}: ${problem}`);
    }
    return;
  }
  if (response === undefined) {
    throw new Error(`${method} ${path} has no documented ${status}`);
  }
  const problem =
    response.schema === null
      ? json === undefined
        ? null
        : "has a body"
      : schemaProblem(response.schema, json, components);
  if (problem !== null) {
    throw new Error(`${method} ${path} ${status}: ${problem}`);
  }
}

/** Every row of every table, as text. */
async function dump(database: TestDatabase): Promise<string> {
  const tables = await database.sql<{ name: string }[]>`
    select n.nspname || '.' || c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('public', 'web') and c.relkind = 'r'`;
  const rows: string[] = [];
  for (const { name } of tables) {
    const found = await database.sql<{ text: string }[]>`
      select t::text as text from ${database.sql(name)} t`;
    rows.push(...found.map((row) => row.text));
  }
  return rows.join("\n");
}
