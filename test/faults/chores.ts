/** What maintenance is given to do beside merging: erasures, and objects of another audience that are past. */
import { setTimeout as sleep } from "node:timers/promises";

import type { Sql } from "../../src/db/sql.js";
import { recordsPerRequest, type Sender } from "./ledger.js";
import { pause } from "./pause.js";

/** An erasure that was asked for. */
interface Asked {
  readonly taskId: string;
  readonly records: number;
}

export interface Erasures {
  readonly asked: Asked[];
  /** Sends records of a service of their own and asks for their erasure, again and again until told to stop. */
  run(stopped: () => boolean): Promise<void>;
}

/** Repeats a statement while Postgres is down. */
export async function persist<T>(work: () => PromiseLike<T>): Promise<T> {
  const giveUpMs = performance.now() + 60_000;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (performance.now() > giveUpMs) {
        throw error;
      }
      await sleep(100);
    }
  }
}

const requestsPerErasure = 6;

export function createErasures(sql: Sql, sender: Sender, key: string): Erasures {
  const asked: Asked[] = [];
  return {
    asked,
    async run(stopped) {
      for (let i = 0; !stopped(); i++) {
        const service = `erase-${i}`;
        for (let n = 0; n < requestsPerErasure; n++) {
          await sender.send({ key, mark: `${service}-${n}`, service });
        }
        const taskId = await askTask(sql, "erasure", { audience: "main", where: { service } });
        asked.push({ taskId, records: requestsPerErasure * recordsPerRequest });
        await pause(3_000, stopped);
      }
    },
  };
}

/** Asks maintenance for a task, once, also when the answer to the insertion is lost. */
export async function askTask(sql: Sql, kind: "erasure" | "check", request: object): Promise<string> {
  const [made] = await persist(() => sql<{ id: string }[]>`select gen_random_uuid()::text as id`);
  const id = made?.id ?? "";
  await persist(
    () => sql`insert into lake_tasks (task_id, kind, request, created_by)
      values (${id}, ${kind}, ${JSON.stringify(request)}::text::jsonb, 'faults') on conflict do nothing`,
  );
  return id;
}

/** Fills the audience `past`, whose objects are made ten days old, so that retention takes them. */
export async function agePast(sql: Sql, sender: Sender, key: string, stopped: () => boolean): Promise<void> {
  await persist(
    () => sql`insert into retention_overrides (view_set, audience, days, updated_by)
      values ('log_entries', 'past', 5, 'faults') on conflict do nothing`,
  );
  // As if somebody had looked at the clock before: else nothing goes for an hour.
  await persist(() => sql`update lake_state set seen_at = now(), hold_until = null`);
  for (let i = 0; !stopped(); i++) {
    await sender.send({ key, mark: `past-${i}`, service: "past" });
    // Every third one looks as if it had young rows as well, and is rewritten.
    await persist(
      () => sql`update lakehouse_partitions set min_insert_time = now() - interval '10 days',
        max_insert_time = case when ${i % 3 === 0} then max_insert_time else now() - interval '10 days' end
      where audience = 'past' and max_insert_time > now() - interval '1 day'`,
    );
    await pause(300, stopped);
  }
}
