/** Queries under load: what was acknowledged before one has to be in its answer, once. */
import { setTimeout as sleep } from "node:timers/promises";

import { connect as connectFlight, staticKey } from "telemetry-service-client";

import type { Place } from "./cluster.js";
import { type Ledger, recordsPerRequest } from "./ledger.js";
import { database, type FaultRecord, objectServer } from "./record.js";

/** How queries under load went. */
export interface Reads {
  answered: number;
  wrong: number;
  /** Without an answer, by the fault that was at hand and what the client was told. */
  readonly failed: Map<string, number>;
}

/** What readers work with. */
interface ReadContext {
  readonly key: string;
  readonly ledger: Ledger;
  readonly record: FaultRecord;
  readonly reads: Reads;
  readonly problems: string[];
  readonly stopped: () => boolean;
}

/** A query that begins so long after a fault is over may still meet what it left: a connection, or an old answer. */
const afterEffectsMs = 10_000;
/** What a client may be told then. An engine that was killed at a query looks like one that the system ended for memory. */
const expected = (told: string, fault: string): boolean =>
  told.startsWith("UNAVAILABLE") || (told.startsWith("RESOURCE_EXHAUSTED") && fault.startsWith("engine"));
/** To whom a fault has to have happened that explains this, the likeliest first. */
const whomToBlame = (told: string, name: string): readonly string[] =>
  told.includes("the object store") ? [objectServer] : told.includes("the database") ? [database] : [name, database];
let statements = 0;

/** Asks one server again and again, while there is one. */
export async function read(place: Place, context: ReadContext): Promise<void> {
  const { key, ledger, record, reads, problems, stopped } = context;
  for (; !stopped(); await sleep(100)) {
    if (place.current === null || Number.isNaN(place.flightPort)) {
      continue; // the next process is being started: there is nobody to ask
    }
    const before = ledger.acknowledged.size * recordsPerRequest;
    const startMs = performance.now();
    let row: Record<string, unknown> | undefined;
    try {
      // Names of its own: a statement whose shape has ended two engines is refused for an hour.
      const nth = (statements += 1);
      [row] = await query(
        place,
        key,
        `select count(*)::int as n, count(distinct msg)::int as d, 0 as nth_${nth}
         from log_entries where service_name = 'keep'`,
      );
    } catch (error) {
      const sinceMs = startMs - afterEffectsMs;
      const words = wordsOf(error);
      const fault = record.since(whomToBlame(words, place.name), sinceMs);
      const told = `${words} after "${fault ?? "no fault"}"`;
      reads.failed.set(told, (reads.failed.get(told) ?? 0) + 1);
      if (fault === null || !expected(words, fault)) {
        problems.push(`a query of ${place.name} failed: ${told}`);
      }
      continue;
    }
    reads.answered += 1;
    const [n, d] = [Number(row?.["n"]), Number(row?.["d"])];
    if (!(d >= before) || n !== d) {
      reads.wrong += 1;
      problems.push(`a query under load saw ${n} records, ${d} different ones; ${before} were acknowledged before it`);
    }
  }
}

function wordsOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "no code";
  // Addresses differ.
  return `${code}: ${error instanceof Error ? error.message.replaceAll(/\d+/gu, "#") : String(error)}`;
}

/** Rows of a statement. @throws the client's errors */
export async function query(place: Place, key: string, statement: string): Promise<Record<string, unknown>[]> {
  const client = connectFlight({ uri: `grpc://127.0.0.1:${place.flightPort}`, auth: staticKey(key) });
  try {
    const { batches } = await client.query(statement);
    const rows: Record<string, unknown>[] = [];
    for await (const batch of batches) {
      for (const row of batch) {
        rows.push(row.toJSON());
      }
    }
    return rows;
  } finally {
    client.close();
  }
}
