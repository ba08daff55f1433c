/** The web server that the tests of a file share, and the people who use it. */
import { afterAll, beforeAll } from "vitest";

import {
  type Identities,
  setAdmins,
  startIdentities,
  startTestWeb,
  type TestWeb,
  type TestWebOptions,
  type WebAnswer,
} from "./web-server.js";

/** Routes of the web server, and an id that no key has. */
export const routes = {
  ingestion: "/api/ingestion-api-keys",
  analytics: "/api/analytics-api-keys",
  grants: "/api/audience-grants",
  mine: "/api/audience-grants/my-audiences",
  groups: "/api/groups",
  audit: "/api/audit",
} as const;
export const unknownId = "00000000-0000-4000-8000-000000000000";

/** There while the tests of a file run. */
interface WebFixture {
  readonly identities: Identities;
  readonly web: TestWeb;
  /** The `Cookie` fields of admin@example.com, ann@example.com and bob@example.com. */
  readonly admin: string;
  readonly ann: string;
  readonly bob: string;
  /** That of somebody without an email. */
  readonly robot: string;
  /** No keys; no grants and groups but the seeded ones; admin@example.com is the one admin. */
  readonly reset: () => Promise<void>;
  /** Starts another server, over a database of its own unless told otherwise. Stop it first. */
  start(o?: Omit<TestWebOptions, "identities">): Promise<TestWeb>;
  /** The same over the shared database. */
  beside(environment?: Record<string, string>): Promise<TestWeb>;
  /** A request of somebody's. */
  as(cookie: string, method: string, path: string, body?: unknown): Promise<WebAnswer>;
  /** Mints an ingestion key, named unless `body` says otherwise. */
  readonly mint: (cookie: string, body: Record<string, unknown>, server?: TestWeb) => Promise<WebAnswer>;
  /** Writes a grant into the database, past the server. */
  grant(audience: string, kind: "read" | "mint", member: string): Promise<void>;
}

/** Registers the hooks of the calling test file. `environment` adds to the server's variables. */
export function useWeb(environment: Record<string, string> = {}): WebFixture {
  let identities: Identities;
  let web: TestWeb;
  const cookies = { admin: "", ann: "", bob: "", robot: "" };
  beforeAll(async () => {
    identities = await startIdentities();
    web = await startTestWeb({ identities, environment });
    for (const name of ["admin", "ann", "bob"] as const) {
      cookies[name] = await identities.cookie(`${name}@example.com`);
    }
    cookies.robot = await identities.anonymousCookie("robot");
  });
  afterAll(async () => {
    await web.stop();
    await identities.stop();
  });
  return {
    get identities() {
      return identities;
    },
    get web() {
      return web;
    },
    get admin() {
      return cookies.admin;
    },
    get ann() {
      return cookies.ann;
    },
    get bob() {
      return cookies.bob;
    },
    get robot() {
      return cookies.robot;
    },
    reset: async () => {
      const { sql } = web.database;
      await sql`truncate ingestion_api_keys, analytics_api_keys`;
      await sql`delete from audience_grants where created_by <> 'migration'`;
      await sql`delete from groups where name <> 'admins'`;
      await setAdmins(web.database, ["admin@example.com"]);
    },
    start: (o = {}) => startTestWeb({ identities, ...o }),
    beside: (more = {}) => startTestWeb({ identities, beside: web, environment: more }),
    as: (cookie, method, path, body) => web.request(method, path, { cookie, ...(body === undefined ? {} : { body }) }),
    mint: (cookie, body, server = web) =>
      server.request("POST", routes.ingestion, { cookie, body: { name: "k", ...body } }),
    grant: async (audience, kind, member) => {
      await web.database.sql`
        insert into audience_grants (audience, kind, member, created_by)
        values (${audience}, ${kind}, ${member}, 'test')`;
    },
  };
}
