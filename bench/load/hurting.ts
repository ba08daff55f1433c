/** One tenant tries to hurt a server, and others use it: what the others notice. */
import { setTimeout as sleep } from "node:timers/promises";

import { median, repeat } from "../figures.js";
import type { Attack } from "./attacks.js";
import { asking, type Noticed, probing, sending, startBystander } from "./bystanders.js";
import { connectReader } from "./flight-reader.js";

/** A server and those who use it. */
interface Hurting {
  /** `host:port` of Flight SQL. */
  readonly analytics: string;
  /** `http://host:port`, with `/health`. */
  readonly ingestionUrl: string;
  /** Whether the server's process is there. */
  readonly alive: () => boolean;
  readonly attackerKey: string;
  /** Of another audience, which holds `tenantRows` log records. */
  readonly tenantKey: string;
  readonly tenantRows: number;
  /** Of an ingestion key of a third audience. */
  readonly sendKey: string;
  readonly attacks: readonly Attack[];
  /** How often each attack is made. */
  readonly rounds: number;
  /** How long the attacker waits for an answer. */
  readonly patienceMs: number;
  /** How long the others go on after each: what was abandoned may not have ended. */
  readonly watchMs: number;
  /** Told what became of each kind, as soon as it is over. */
  readonly onFound?: (found: Hurt) => void;
}

/** What became of one kind of attack, and what the others noticed. */
export interface Hurt {
  readonly point: string;
  readonly attack: string;
  readonly outcomes: ReadonlyMap<string, number>;
  /** What every attempt should have ended with. */
  readonly wanted: string;
  /** Attempts that ended in another way than they should. */
  readonly strange: number;
  readonly queries: Noticed;
  readonly requests: Noticed;
  readonly probes: Noticed;
  /** Queries that took a second more than they do when all is quiet. */
  readonly slowQueries: number;
  /** Requests to ingestion and `/health` that took a second. */
  readonly slowRequests: number;
  readonly usualMs: number;
  /** What the others noticed, one sentence each. */
  readonly failures: readonly string[];
}

const slowMs = 1000;

/** Makes the attacks, one kind after the other; ends early when the server is gone. */
export async function hurt(o: Hurting): Promise<Hurt[]> {
  const expected = JSON.stringify([{ n: String(o.tenantRows) }]);
  const sql = "SELECT count(*) AS n FROM log_entries";
  const ask = asking(`grpc://${o.analytics}`, o.tenantKey, sql, expected);
  const usualMs = median(
    await repeat(10, async () => {
      const startMs = performance.now();
      await ask();
      return performance.now() - startMs;
    }),
  );
  const tenant = startBystander(1000, ask);
  const sender = startBystander(200, sending(o.ingestionUrl, o.sendKey));
  const health = startBystander(200, probing(o.ingestionUrl));
  const found: Hurt[] = [];
  try {
    for (const attack of o.attacks) {
      if (!o.alive()) {
        break;
      }
      const outcomes = await makeAttacks(o, attack);
      await sleep(o.watchMs);
      const [queries, requests, probes] = [tenant.look(), sender.look(), health.look()];
      const seen = [queries, requests, probes].flatMap(({ failures }) => failures);
      const one = {
        point: attack.point,
        attack: attack.name,
        outcomes,
        wanted: attack.wanted.words,
        strange: [...outcomes].reduce((sum, [outcome, n]) => sum + (attack.wanted.outcome.test(outcome) ? 0 : n), 0),
        queries,
        requests,
        probes,
        slowQueries: queries.times.filter((ms) => ms > usualMs + slowMs).length,
        slowRequests: [...requests.times, ...probes.times].filter((ms) => ms > slowMs).length,
        usualMs,
        failures: seen.map((failure) => `${attack.name}: ${failure}`),
      };
      found.push(one);
      o.onFound?.(one);
    }
  } finally {
    await Promise.all([tenant.stop(), sender.stop(), health.stop()]);
  }
  return found;
}

async function makeAttacks(o: Hurting, attack: Attack): Promise<Map<string, number>> {
  const outcomes = new Map<string, number>();
  const reader = connectReader(o.analytics, o.attackerKey);
  for (let i = 0; i < o.rounds && o.alive(); i++) {
    for (const { outcome } of await attack.run(reader, o.patienceMs)) {
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
  }
  reader.close();
  return outcomes;
}
