/**
 * Claims across real processes: however many processes and callers race for a name, and whichever
 * process dies in between, the name ends with exactly one owner.
 */
import { afterAll, beforeAll, expect, it } from "vitest";

import { createTestDatabase, type TestDatabase } from "../../helpers/postgres/postgres.js";
import { type ServerProcess, startServerProcess } from "../../helpers/servers/server-process.js";
import { createRecorder, type Identities, type Recorder, startIdentities } from "../../helpers/web/web-server.js";

const ingestion = "/api/ingestion-api-keys";
const processCount = 8;

let identities: Identities;
let database: TestDatabase;
let processes: ServerProcess[];
let recorder: Recorder;

beforeAll(async () => {
  identities = await startIdentities();
  database = await createTestDatabase();
  recorder = createRecorder();
  processes = await Promise.all(Array.from({ length: processCount }, start));
});
afterAll(async () => {
  const codes = await Promise.all(processes.map((process) => process.end("SIGTERM")));
  recorder.assertNoLeak({ log: processes.map((process) => process.output()).join("") });
  await database.drop();
  await identities.stop();
  if (codes.some((code) => code !== 0)) {
    throw new Error(`processes ended with ${codes.join()}`);
  }
});

const start = (): Promise<ServerProcess> =>
  startServerProcess(
    "analytics-web-srv",
    {
      SVC_WEB_LISTEN: "127.0.0.1:0",
      SVC_SQL_CONNECTION_STRING: database.connectionString,
      SVC_OIDC_CONFIG: identities.config,
      SVC_SELF_SERVICE_MINT: "true",
      SVC_LOG_LEVEL: "trace",
    },
    /web server on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
  );

/** One claim; the status and code, or "lost" when the process went away. */
async function claim(process: ServerProcess, cookie: string, audience: string): Promise<string> {
  try {
    const { status, json } = await recorder.request(process.url, "POST", ingestion, {
      cookie,
      body: { name: "k", audience },
    });
    return status === 201 ? `201 ${json.claimed ? "claimed" : "minted"}` : `${status} ${json.code}`;
  } catch (error) {
    if (error instanceof TypeError) {
      return "lost";
    } // what fetch throws without an answer
    throw error;
  }
}

interface Ownership {
  readonly audience: string;
  readonly grants: number;
  readonly owners: number;
  readonly keys: number;
  readonly claims: number;
  readonly foreign_keys: number;
}

async function ownership(pattern: string): Promise<readonly Ownership[]> {
  return await database.sql<Ownership[]>`
    with names as (
      select audience from audience_grants where audience like ${pattern}
      union select audience from ingestion_api_keys where audience like ${pattern}
      union select target from audit_log where action = 'audience.claim' and target like ${pattern}
    )
    select n.audience,
      (select count(*)::int from audience_grants g where g.audience = n.audience) as grants,
      (select count(distinct member)::int from audience_grants g where g.audience = n.audience) as owners,
      (select count(*)::int from ingestion_api_keys k where k.audience = n.audience) as keys,
      (select count(*)::int from audit_log a
        where a.action = 'audience.claim' and a.target = n.audience) as claims,
      (select count(*)::int from ingestion_api_keys k where k.audience = n.audience
        and not exists (select from audience_grants g
          where g.audience = n.audience and g.member = 'user:' || k.created_by)) as foreign_keys
    from names n`;
}

it("1000 concurrent claims of one name from 8 processes end with one owner, and only 403 and 409", async () => {
  const cookies = await Promise.all(
    Array.from({ length: 1000 }, (_, i) => identities.cookie(`caller-${i}@example.com`)),
  );
  const outcomes = await Promise.all(
    cookies.map((cookie, i) => {
      const process = processes[i % processCount];
      if (process === undefined) {
        throw new Error("no process");
      }
      return claim(process, cookie, "the-one");
    }),
  );
  const counts = new Map<string, number>();
  for (const outcome of outcomes) {
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  expect(counts.get("201 claimed")).toBe(1);
  expect([...counts.keys()].filter((o) => !/^(201 claimed|403 FORBIDDEN|409 CLAIM_CONTENDED)$/.test(o))).toEqual([]);
  expect(await ownership("the-one")).toEqual([
    { audience: "the-one", grants: 2, owners: 1, keys: 1, claims: 1, foreign_keys: 0 },
  ]);
  // The contended caller tries again and learns that the name is taken.
  expect(await claim(processes[0] as ServerProcess, cookies[999] as string, "the-one")).toMatch(
    outcomes[999] === "201 claimed" ? /^201/ : /^403/,
  );
});

it("a process killed in the middle of claims leaves each name claimed whole or not at all", async () => {
  const names = 60;
  const callers = await Promise.all(
    Array.from({ length: processCount }, (_, i) =>
      Promise.all(
        // A caller per process and twenty names, below the bound on claims.
        Array.from({ length: names / 20 }, (__, j) => identities.cookie(`racer-${i}-${j}@example.com`)),
      ),
    ),
  );
  const victim = processes[0];
  if (victim === undefined) {
    throw new Error("no process");
  }
  /** By the victim. */
  let answered = 0;
  const kills: Promise<unknown>[] = [];
  const outcomes = await Promise.all(
    Array.from({ length: names }, async (_, n) => {
      const audience = `raced-${n}`;
      const results = await Promise.all(
        processes.map(async (process, i) => {
          const cookie = callers[i]?.[Math.floor(n / 20)] ?? "";
          const outcome = await claim(process, cookie, audience);
          answered += process === victim ? 1 : 0;
          // All of its requests are under way, and most have no answer yet, however late this one is seen.
          if (process === victim && answered === 1) {
            kills.push(victim.end("SIGKILL"));
          }
          return outcome;
        }),
      );
      return { audience, results };
    }),
  );
  await Promise.all(kills);
  processes[0] = await start();
  expect(outcomes.flatMap(({ results }) => results)).toContain("lost");
  const found = await ownership("raced-%");
  for (const { audience, results } of outcomes) {
    const winners = results.filter((outcome) => outcome === "201 claimed").length;
    const state = found.find((row) => row.audience === audience);
    // Nobody owns it (all contended, or the only claim died), or one caller owns it whole.
    const expected =
      state === undefined ? undefined : { audience, grants: 2, owners: 1, keys: 1, claims: 1, foreign_keys: 0 };
    expect(state).toEqual(expected);
    // An answer that was lost may have been a success; one that was given is the truth.
    expect(winners).toBeLessThanOrEqual(1);
    expect(winners === 1 && state === undefined).toBe(false);
    expect(winners === 0 && state !== undefined && !results.includes("lost")).toBe(false);
    const others = results.filter((o) => !/^(201 claimed|403 FORBIDDEN|409 CLAIM_CONTENDED|lost)$/.test(o));
    expect(others).toEqual([]);
  }
  // The lock of the dead is free: what nobody owns can be claimed, by the new process, too.
  const late = await identities.cookie("late@example.com");
  const free = outcomes.find(({ audience }) => found.every((row) => row.audience !== audience));
  const audience = free?.audience ?? "raced-free";
  expect(await claim(processes[0], late, audience)).toBe("201 claimed");
});
