/**
 * A web server and an analytics server over one database and lake, with people who log in at one provider. The audience
 * `public` holds 100 log entries, `secret` as many; only ann@example.com may read `secret`.
 */
import { type Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { once } from "node:events";

import { addPartition } from "../lake/lake.js";
import { startTestAnalytics, type TestAnalytics } from "../servers/analytics.js";
import { startIdentities, startTestWeb, type TestWeb } from "./web-server.js";

/** A frame of the answer to a query. */
interface Frame {
  readonly kind: string;
  readonly payload: Buffer;
}

/** The answer to a query, as it comes. */
interface QueryStream {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** The body; not read on until somebody does. */
  readonly body: IncomingMessage;
  /** Breaks the connection. */
  leave(): void;
}

export interface QueryWorld {
  readonly analytics: TestAnalytics;
  readonly web: TestWeb;
  /** The `Cookie` field of an email. */
  cookie(email: string, claims?: Record<string, unknown>): Promise<string>;
  /** Another web server over the same database. */
  beside(environment: Record<string, string>): Promise<TestWeb>;
  stop(): Promise<void>;
}

interface QueryWorldOptions {
  readonly analytics?: Record<string, string>;
  readonly web?: Record<string, string>;
}

export async function startQueryWorld(o: QueryWorldOptions = {}): Promise<QueryWorld> {
  const identities = await startIdentities();
  const analytics = await startTestAnalytics({ SVC_OIDC_CONFIG: identities.config, ...o.analytics });
  const { sql, connectionString, lake } = analytics;
  for (const audience of ["public", "secret"]) {
    await addPartition(lake, sql, {
      table: "log_entries",
      audience,
      rowsSql: `SELECT make_timestamp_ns(1763726400000000000 + i) AS time, '${audience} ' || i AS msg, 'svc' AS service_name, 4 AS level, '{}' AS properties FROM range(100) t(i)`,
    });
  }
  await sql`insert into audience_grants (audience, kind, member, created_by)
    values ('secret', 'read', 'user:ann@example.com', 'test')`;
  await sql`delete from group_members where group_name = 'admins'`;
  await sql`insert into group_members (group_name, member, created_by)
    values ('admins', 'user:admin@example.com', 'test')`;
  // The analytics server owns the database, and drops it.
  const database = { sql, connectionString, drop: () => Promise.resolve() };
  const start = (environment: Record<string, string>): Promise<TestWeb> =>
    startTestWeb({
      identities,
      database,
      environment: { SVC_ANALYTICS_URI: `grpc://127.0.0.1:${analytics.port}`, ...environment },
    });
  const web = await start(o.web ?? {});
  return {
    analytics,
    web,
    cookie: (email, claims) => identities.cookie(email, claims),
    beside: start,
    stop: async () => {
      await web.stop();
      await analytics.stop();
      await identities.stop();
    },
  };
}

/** Asks a query and resolves when the head of its answer is there. */
export async function startQuery(
  url: string,
  cookie: string,
  body: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>> = {},
  o: { readonly agent?: Agent; readonly chunked?: boolean } = {},
): Promise<QueryStream> {
  const request = httpRequest(`${url}/api/query`, {
    method: "POST",
    agent: o.agent ?? false,
    headers: { cookie, "content-type": "application/json", ...headers },
  });
  if (o.chunked === true) {
    // Without a length that is known when the head leaves.
    request.flushHeaders();
  }
  request.end(JSON.stringify(body));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  // A connection that the test broke.
  response.on("error", () => undefined);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: response,
    leave: () => {
      request.destroy();
    },
  };
}

/** The frames of an answer as they come; throws when it ends in the middle of one. */
export async function* framesOf(stream: QueryStream): AsyncGenerator<Frame> {
  let rest = Buffer.alloc(0);
  for await (const chunk of stream.body) {
    rest = Buffer.concat([rest, chunk as Buffer]);
    while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32LE(1)) {
      const end = 5 + rest.readUInt32LE(1);
      yield { kind: rest.toString("latin1", 0, 1), payload: rest.subarray(5, end) };
      rest = rest.subarray(end);
    }
  }
  if (rest.length > 0) {
    throw new Error(`the answer ends within a frame, ${rest.length} bytes behind the last one`);
  }
}

/** A whole answer: its kinds in order without progress, the Arrow stream, and the JSON of the last frame. */
export async function readAnswer(stream: QueryStream): Promise<{
  readonly kinds: string;
  readonly arrow: Buffer;
  readonly last: Readonly<Record<string, unknown>>;
}> {
  let kinds = "";
  const messages: Buffer[] = [];
  let last = Buffer.from("{}");
  for await (const { kind, payload } of framesOf(stream)) {
    if (kind === "P") {
      continue;
    }
    kinds += kind;
    if (kind === "S" || kind === "B") {
      messages.push(Buffer.from(payload));
    } else {
      last = Buffer.from(payload);
    }
  }
  return {
    kinds,
    arrow: Buffer.concat(messages),
    last: JSON.parse(last.toString()) as Readonly<Record<string, unknown>>,
  };
}

/** The same of a query from its beginning. */
export async function ask(
  url: string,
  cookie: string,
  body: Readonly<Record<string, unknown>>,
): ReturnType<typeof readAnswer> {
  return readAnswer(await startQuery(url, cookie, body));
}
