/** An ingestion and an analytics server over one database, one lake and one real identity provider. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import type { JWTPayload } from "jose";

import {
  mintAnalyticsKey,
  type MintedIngestionKey,
  type MintedKey,
  mintIngestionKey,
} from "../../../src/auth/keys/keys.js";
import type { Sql } from "../../../src/db/sql.js";
import { parseConfig } from "../../../src/runtime/config/parse.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { startAnalyticsServer } from "../../../src/servers/analytics.js";
import { startIngestionServer } from "../../../src/servers/ingestion.js";
import { createTappedLogger } from "../cleartext/cleartext-tap.js";
import {
  makeSigningKey,
  type SigningKey,
  signToken,
  startOidcProvider,
  type TestProvider,
} from "./auth-oidc-provider.js";
import { type PlainRow, plainRows } from "../flight/plain-rows.js";
import { freshMark, protobufLogs } from "../otlp/otlp-bodies.js";
import { createTestDatabase } from "../postgres/postgres.js";

type Environment = Readonly<Record<string, string>>;

export interface TestService {
  readonly sql: Sql;
  readonly connectionString: string;
  readonly storeUri: string;
  readonly provider: TestProvider;
  /** The provider's key. */
  readonly signingKey: SigningKey;
  /** A token that the provider could have issued, with other claims. */
  token(claims?: JWTPayload): Promise<string>;
  mintIngestion(audience: string): Promise<MintedIngestionKey>;
  /** An analytics key that may read `audiences` beside what everybody may. */
  mintAnalytics(audiences?: readonly string[]): Promise<MintedKey>;
  grant(audience: string, member: string): Promise<void>;
  /** @param connectionString another way to the database, for example through a proxy. */
  startIngestion(environment?: Environment, connectionString?: string): Promise<RunningIngestion>;
  startAnalytics(environment?: Environment, connectionString?: string): Promise<RunningAnalytics>;
  stop(): Promise<void>;
}

export interface RunningIngestion {
  readonly url: string;
  readonly port: number;
  /** Sends one log record and answers with the status. */
  post(credential: string | null, o?: PostOptions): Promise<Posted>;
  stop(): Promise<void>;
}

interface PostOptions {
  readonly body?: Buffer;
  readonly contentType?: string;
}

export interface Posted {
  readonly status: number;
  readonly retryAfter: string | null;
}

export interface RunningAnalytics {
  readonly port: number;
  query(credential: string, sql: string): Promise<PlainRow[]>;
  stop(): Promise<void>;
}

interface TestServiceOptions {
  readonly providerClaims?: Record<string, unknown>;
  /** Fields of `SVC_OIDC_CONFIG` beside the issuers. */
  readonly oidc?: Readonly<Record<string, number>>;
}

/** The database, the provider and the lake; servers are started by the test and stopped with it. */
export async function startTestService(o: TestServiceOptions = {}): Promise<TestService> {
  const database = await createTestDatabase();
  const directory = await mkdtemp(path.join(tmpdir(), "auth-service-"));
  const storeUri = pathToFileURL(path.join(directory, "lake")).href;
  const signingKey = await makeSigningKey("first");
  const provider = await startOidcProvider({ key: signingKey, claims: o.providerClaims ?? {} });
  const { issuer, clientId } = provider;
  const oidcConfig = JSON.stringify({ issuers: [{ issuer, audience: clientId }], ...o.oidc });
  const running = new Set<{ stop(): Promise<void> }>();
  const shared = { objectStoreUri: storeUri, logger: createTappedLogger() };
  const { sql } = database;
  const grant = async (audience: string, member: string): Promise<void> => {
    await sql`
      insert into audience_grants (audience, kind, member, created_by)
      values (${audience}, 'read', ${member}, 'test') on conflict do nothing`;
  };
  const track = <T extends { stop(): Promise<void> }>(server: T): T => {
    running.add(server);
    return server;
  };
  return {
    sql,
    connectionString: database.connectionString,
    storeUri,
    provider,
    signingKey,
    token: (claims = {}) => providerToken(provider, signingKey, claims),
    mintIngestion: (audience) => mintIngestionKey(sql, { name: "t", audience, createdBy: "t" }),
    async mintAnalytics(audiences = []) {
      const minted = await mintAnalyticsKey(sql, { name: "t", createdBy: "t" });
      for (const audience of audiences) {
        await grant(audience, `key:${minted.keyId}`);
      }
      return minted;
    },
    grant,
    async startIngestion(environment = {}, connectionString = database.connectionString) {
      const server = track(
        await startIngestionServer({
          ...shared,
          connectionString,
          metrics: createMetrics(),
          config: parseConfig("ingestion", [], {
            SVC_INGESTION_LISTEN: "127.0.0.1:0",
            SVC_OTLP_HTTP_LISTEN: "",
            SVC_OTLP_GRPC_LISTEN: "",
            SVC_INGESTION_WORKERS: "1",
            SVC_INGESTION_ARENA_BYTES: String(16 * 1024 * 1024),
            SVC_OIDC_CONFIG: oidcConfig,
            ...environment,
          }),
        }),
      );
      const { port } = server.address;
      const url = `http://127.0.0.1:${port}`;
      return { url, port, post: (...args) => postLogs(url, ...args), stop: () => server.stop() };
    },
    async startAnalytics(environment = {}, connectionString = database.connectionString) {
      const server = track(
        await startAnalyticsServer({
          ...shared,
          connectionString,
          metrics: createMetrics(),
          config: parseConfig("analytics", [], {
            SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
            SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
            SVC_OIDC_CONFIG: oidcConfig,
            ...environment,
          }),
        }),
      );
      const { port } = server.address;
      return {
        port,
        query: (credential, text) => plainRows({ port, key: credential }, text),
        stop: () => server.stop(),
      };
    },
    async stop() {
      await Promise.all([...running].map((server) => server.stop()));
      await provider.stop();
      await database.drop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** A token with the standard claims of the provider, changed by `over`. */
export function providerToken(provider: TestProvider, key: SigningKey, over: JWTPayload = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const { issuer, clientId } = provider;
  return signToken(key, {
    iss: issuer,
    aud: clientId,
    sub: "someone",
    iat: now,
    exp: now + 3600,
    ...over,
  });
}

/** Sends a logs request; by default one record. */
export async function postLogs(url: string, credential: string | null, o: PostOptions = {}): Promise<Posted> {
  const response = await fetch(`${url}/ingestion/otlp/v1/logs`, {
    method: "POST",
    body: o.body ?? protobufLogs(freshMark()),
    headers: {
      "content-type": o.contentType ?? "application/x-protobuf",
      ...(credential === null ? {} : { authorization: `Bearer ${credential}` }),
    },
  });
  await response.arrayBuffer();
  return { status: response.status, retryAfter: response.headers.get("retry-after") };
}
