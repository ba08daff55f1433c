/**
 * `pnpm bench hurt [--rounds 100] [--kill-minutes 10] [--only name,...] [--save]`
 *
 * A monolith in a process of its own, one tenant who sends it statements that are meant to hurt, and others who use it
 * at the same time: a tenant with another key and audience asks every second, telemetry comes in, `/health` is asked.
 * Every attempt is another statement, because one that has ended engines is refused. Prints for each attack, as soon as
 * it is over, what became of it, what the others noticed, and what was wanted. Then the server's engines are killed at
 * random moments under mixed load: no result may be taken for a whole one that is not.
 *
 * An attack takes at most some 15 s a round, most take one or two. Ends with 1 when a verdict is not `ok`.
 */
import { tmpdir } from "node:os";
import path from "node:path";

import { mintAnalyticsKey, mintIngestionKey } from "../src/auth/keys/keys.js";
import { createSilentLogger } from "../src/runtime/log/log.js";
import { atMost, type Figure, figure, type FigureRow, repeat, round } from "./figures.js";
import { attacks } from "./load/attacks.js";
import { sending } from "./load/bystanders.js";
import { killEngines } from "./load/engine-kills.js";
import { type PastTheGate, pastTheGate, startPastTheGate } from "./load/past-the-gate.js";
import { hurt, type Hurt } from "./load/hurting.js";
import { startBenchDatabase } from "./run/database.js";
import { describeEnvironment } from "./run/machine.js";
import { type Monolith, startMonolith } from "./monolith.js";
import { saveResults } from "./run/results.js";
import { count, flag, number, readOptions, text, Usage } from "./run/options.js";
import { printTable } from "./run/table.js";

const tenantRows = 200;

/** Runs the bench; see the head of this file. */
export async function benchHurt(argv: readonly string[]): Promise<readonly Figure[]> {
  const options = {
    rounds: count(100, "rounds of each attack"),
    "kill-minutes": number(10, "how long engines are killed"),
    only: text("", "attacks, by name or point, with commas between them"),
    save: flag("keeps the result under bench/results/"),
  };
  const values = readOptions("hurt", "what others notice of an attack", options, argv);
  const chosen = values.only.split(",").filter(Boolean);
  const known = [...attacks, pastTheGate].flatMap(({ name, point }) => [name, point]);
  const unknown = chosen.find((one) => !known.includes(one));
  if (unknown !== undefined) {
    throw new Usage(`--only: there is no attack ${JSON.stringify(unknown)}`, false);
  }
  const directory = tmpdir();
  const logger = createSilentLogger();
  const database = await startBenchDatabase({ dataDirectory: path.join(directory, "db"), maxConnections: 1, logger });
  const { connectionString, sql } = database;
  let server: Monolith | null = null;
  let gate: PastTheGate | null = null;
  try {
    const keys: Record<string, string> = {};
    for (const audience of ["attacker", "tenant"]) {
      const name = audience;
      const read = await mintAnalyticsKey(sql, { name, createdBy: "bench" });
      await sql`insert into audience_grants (audience, kind, member, created_by)
        values (${audience}, 'read', ${`key:${read.keyId}`}, 'bench')`;
      keys[audience] = read.key;
    }
    const { key: tenantSends } = await mintIngestionKey(sql, {
      name: "t",
      audience: "tenant",
      createdBy: "bench",
    });
    const { key: otherSends } = await mintIngestionKey(sql, {
      name: "o",
      audience: "other",
      createdBy: "bench",
    });
    server = await startMonolith({
      SVC_ROLES: "ingestion,analytics,maintenance",
      SVC_SQL_CONNECTION_STRING: connectionString,
      SVC_DATA_DIR: directory,
    });
    await repeat(tenantRows, () => sending(server?.ingestionUrl ?? "", tenantSends)());
    const { pid, analytics, ingestionUrl, alive } = server;
    gate = await startPastTheGate(path.join(directory, "lake"), "attacker", "tenant");
    const found = await hurt({
      alive,
      analytics,
      ingestionUrl,
      attackerKey: keys["attacker"] ?? "",
      tenantKey: keys["tenant"] ?? "",
      tenantRows,
      sendKey: otherSends,
      rounds: values.rounds,
      attacks: [...attacks, gate.attack].filter(
        ({ name, point }) => chosen.length === 0 || chosen.includes(name) || chosen.includes(point),
      ),
      patienceMs: 15_000,
      watchMs: 5000,
      onFound: (one) => {
        console.log(verdictOf(one));
      },
    });
    if (!alive()) {
      throw new Error(`the server is gone:\n${server.output().slice(-2000)}`);
    }
    const rows = found.map(rowOf);
    printTable("hurt", rows);
    const killed = await killEngines({
      uri: `grpc://${analytics}`,
      key: keys["tenant"] ?? "",
      serverPid: pid,
      forMs: values["kill-minutes"] * 60_000,
      atOnce: 4,
    });
    const kills: FigureRow[] = [{ ...killed, wrong: killed.wrong.length }];
    printTable("engines killed", kills);
    const killsHurt = killed.wrong.length > 0 || killed.kills === 0 || killed.whole === 0;
    console.log(
      `${killsHurt ? "HURT" : "ok"}  engines killed: ${killed.kills}; results: ${killed.whole} whole, ${killed.failed} failed, ${killed.wrong.length} wrong. Wanted: none wrong.`,
    );
    const failures = found.flatMap((one) => one.failures);
    for (const sentence of [...failures, ...killed.wrong].slice(0, 20)) {
      console.log(sentence);
    }
    if (killsHurt || found.some((one) => complaintsOf(one).length > 0)) {
      process.exitCode = 1;
    }
    if (values.save) {
      const environment = describeEnvironment();
      saveResults("hurt", {
        environment,
        rounds: values.rounds,
        attacks: rows,
        kills,
      });
    }
    const sum = (of: (one: Hurt) => number): number => found.reduce((total, one) => total + of(one), 0);
    return [
      figure(
        "failures of others",
        "failures",
        sum((one) => one.failures.length),
        atMost(0),
      ),
      figure(
        "queries of others a second slower",
        "queries",
        sum((one) => one.slowQueries),
        atMost(0),
      ),
      figure(
        "requests of others of more than a second",
        "requests",
        sum((one) => one.slowRequests),
        atMost(0),
      ),
      figure(
        "attacks that ended in another way",
        "attempts",
        sum((one) => one.strange),
        atMost(0),
      ),
      figure("truncated results taken for whole ones", "results", killed.wrong.length, atMost(0)),
    ];
  } finally {
    await gate?.stop();
    await server?.stop();
    await database.stop();
  }
}

/** What is not as it should be. */
function complaintsOf({ strange, failures, slowQueries, slowRequests }: Hurt): string[] {
  return [
    ...(strange > 0 ? [`${strange} attempts ended in another way`] : []),
    ...(failures.length > 0 ? [`others failed ${failures.length} times`] : []),
    ...(slowQueries > 0 ? [`${slowQueries} queries of others took a second longer than usual`] : []),
    ...(slowRequests > 0 ? [`${slowRequests} requests of others took more than a second`] : []),
  ];
}

function verdictOf(one: Hurt): string {
  const complaints = complaintsOf(one);
  const { point, attack, wanted, queries } = one;
  const said = [...one.outcomes].map(([outcome, n]) => `${n} ${outcome}`).join(", ");
  return [
    `${complaints.length === 0 ? "ok" : "HURT"}  ${point} ${attack}: ${[said, ...complaints].join("; ")}.`,
    `Others: ${queries.times.length} queries, ${one.requests.times.length} requests, ${one.probes.times.length} probes.`,
    `Wanted: ${wanted}; nobody else fails or waits.`,
  ].join(" ");
}

function rowOf(one: Hurt): FigureRow {
  const { outcomes, queries, requests, probes } = one;
  return {
    verdict: complaintsOf(one).length === 0 ? "ok" : "HURT",
    point: one.point,
    attack: one.attack,
    outcomes: [...outcomes].map(([outcome, n]) => `${n} ${outcome}`).join(", "),
    wanted: one.wanted,
    strange: one.strange,
    queries: queries.times.length,
    failed: queries.failures.length,
    slow: one.slowQueries,
    "slowest ms": round(Math.max(0, ...queries.times), 0),
    "usual ms": round(one.usualMs, 0),
    requests: requests.times.length,
    "requests failed": requests.failures.length,
    "slow requests": one.slowRequests,
    "slowest request ms": round(Math.max(0, ...requests.times), 0),
    "health failed": probes.failures.length,
  };
}
