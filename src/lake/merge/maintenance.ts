/**
 * Maintenance keeps the lake fast by itself. Every interval it merges what merge-levels.ts chooses.
 *
 * **Several processes share the work.** Each merge holds the lock of its table and audience (merge-lock.ts), so whoever
 * comes first leads there, and others go on with the next. When a process dies, the others find what it was at with
 * their next look. **One of them leads**: it also does the chores (chores.ts): what administrators ask for, retention,
 * and removing objects that nothing names. Its session holds an advisory lock of Postgres. The pool has a single
 * connection, and the lock is asked for again before every round: in the session that holds it this succeeds, and after
 * a lost connection the first to ask leads. Two leaders for a moment do no harm, because whatever changes the catalogue
 * has locks of its own.
 *
 * **It stays in the background.** Merges run one after the other, within a share of the CPUs (cpu-share.ts).
 *
 * **Merges and tasks take turns.** An erasure opens every object and keeps its table from being merged: a queue of them
 * over many small objects would take ever longer. And a round over hundreds of audiences may take an hour: chores do not
 * wait for its end.
 *
 * **A failure is logged and counted, and nothing else stops.** An object that is missing or damaged is left out for an
 * hour. A group whose merge failed is left alone for one interval, then two, four and so on, up to an hour; so is
 * everything when the database cannot be asked.
 */
import { setTimeout as wait } from "node:timers/promises";

import { isConnectionError, type Sql } from "../../db/sql.js";
import type { Clock } from "../../runtime/clock.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import { BadObjects } from "../bad-objects.js";
import type { MergedPartition, MergeRequest } from "./merge.js";
import { audiencesOf, chooseMerge, findMergeGroups, type MergeGroup } from "./merge-candidates.js";
import type { GroupMerge, MergeRoom } from "./merge-levels.js";

/** Something else that the leader does from time to time. */
export interface Chore {
  /** Completes "maintenance could not ...". */
  readonly name: string;
  /** Milliseconds from its end to its next begin; 0: with every look. It begins so long after the start. */
  readonly everyMs: number;
  /**
   * What it throws is logged and counted; it is due again after `everyMs`.
   * @returns whether it has more to do, once merges had their turn
   */
  run(signal: AbortSignal): Promise<boolean>;
}

/** What maintenance works with. */
interface MaintenanceOptions {
  /** A pool of one connection, whose session is what leads. */
  readonly sql: Sql;
  readonly merger: {
    /** See `mergePartitions` in merge.ts. */
    merge(request: MergeRequest, signal: AbortSignal): Promise<readonly MergedPartition[]>;
  };
  readonly chores: readonly Chore[];
  /** What one step of a merge takes. */
  readonly room: MergeRoom;
  /** Milliseconds between two looks. */
  readonly intervalMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** "main" in ASCII, the advisory lock of the leader. */
const leaderLockKey = 0x6d61696e;
const maxBackoffMs = 3_600_000;
/** Rounds with few rows follow each other no faster: each makes an object in every group that is due. */
const minRoundMs = 1000;
/** Merges of a round that go on for longer let the chores have a turn. */
const turnMs = 60_000;
/** How long objects that are missing or damaged are left out: somebody may bring them back. */
const badForMs = 3_600_000;
/** Partitions that no merge could take are remembered up to this many. */
const maxRemembered = 10_000;

interface Backoff {
  readonly failures: number;
  readonly untilMs: number;
}

/** Maintenance of one process; it waits for its turn while another one leads. */
export class Maintenance implements Component {
  readonly name = "maintenance";
  readonly #o: MaintenanceOptions;
  readonly #stopping = new AbortController();
  readonly #counts: MaintenanceCounts;
  readonly #backoff = new Map<string, Backoff>();
  /** Partitions that are not merged, until when. */
  readonly #leftAlone = new Map<string, number>();
  readonly #running: Promise<void>;
  #leads = false;
  /** Rows that were merged in this round. */
  #roundRows = 0;
  /** When each chore is due. Not at the start, when others are busy. */
  readonly #dueMs: Map<Chore, number>;

  /** Looks at once, and then every interval. */
  constructor(o: MaintenanceOptions) {
    this.#o = o;
    const startMs = o.clock.monotonicMs();
    this.#dueMs = new Map(o.chores.map((chore) => [chore, startMs + chore.everyMs]));
    this.#counts = createCounts(o.metrics);
    this.#running = this.#run();
  }

  /** Interrupts a running merge and waits for its end. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { intervalMs, logger } = this.#o;
    let failures = 0;
    do {
      try {
        await this.#look();
        failures = 0;
      } catch (error) {
        if (this.#stopped()) {
          return;
        }
        failures = Math.min(failures + 1, 20);
        if (isConnectionError(error)) {
          this.#setLeads(false);
        }
        this.#counts.failures.inc();
        logger.warn({ err: error }, "maintenance cannot read or merge the lake; trying again later");
      }
    } while (await this.#pause(Math.min(intervalMs * 2 ** failures, maxBackoffMs)));
  }

  /** Merges until nothing is left to merge, and chores have no more to do. */
  async #look(): Promise<void> {
    const { sql, room, clock, intervalMs } = this.#o;
    for (let more = true; more;) {
      let merged = false;
      this.#roundRows = 0;
      const startMs = clock.monotonicMs();
      more = await this.#takeTurn();
      let turnEndMs = clock.monotonicMs() + turnMs;
      const groups = await findMergeGroups(sql, room, this.#except());
      this.#counts.backlog.set(groups.reduce((sum, { objects }) => sum + objects, 0));
      for (const group of groups) {
        if (this.#stopped()) {
          return;
        }
        if (clock.monotonicMs() > turnEndMs) {
          more = (await this.#takeTurn()) || more;
          turnEndMs = clock.monotonicMs() + turnMs;
        }
        if ((this.#backoff.get(keyOf(group))?.untilMs ?? 0) > clock.monotonicMs()) {
          continue;
        }
        const choice = await chooseMerge(sql, group, room, this.#except());
        if (choice !== null && (await this.#merge(group, choice))) {
          merged = true;
        }
      }
      const restMs = Math.min(intervalMs, minRoundMs) - (clock.monotonicMs() - startMs);
      if (merged && this.#roundRows < room.rows / 2 && !(await this.#pause(Math.max(0, restMs)))) {
        return;
      }
      more ||= merged;
    }
    this.#counts.lastSuccess.set(clock.nowMs() / 1000);
  }

  /** Does the chores that are due, if this process is the one that does them. @returns whether one has more to do */
  async #takeTurn(): Promise<boolean> {
    return (await this.#lead()) && (await this.#doChores());
  }

  /** Whether this process does the chores. */
  async #lead(): Promise<boolean> {
    const [row] = await this.#o.sql<{ leads: boolean }[]>`
      select pg_try_advisory_lock(${leaderLockKey}::int8) as leads`;
    this.#setLeads(row?.leads === true);
    return this.#leads;
  }

  #setLeads(leads: boolean): void {
    if (leads !== this.#leads) {
      this.#o.logger.info(leads ? "this process maintains the lake" : "this process no longer maintains the lake");
    }
    this.#leads = leads;
    this.#counts.leads.set(leads ? 1 : 0);
  }

  /** @returns whether one has more to do */
  async #doChores(): Promise<boolean> {
    const { clock, logger } = this.#o;
    let more = false;
    for (const [chore, dueMs] of this.#dueMs) {
      if (this.#stopped() || clock.monotonicMs() < dueMs) {
        continue;
      }
      try {
        more = (await chore.run(this.#stopping.signal)) || more;
      } catch (error) {
        // Without the session somebody else may lead.
        if (isConnectionError(error) || this.#stopped()) {
          throw error;
        }
        this.#counts.failures.inc();
        logger.warn({ err: error }, `maintenance could not ${chore.name}; trying again later`);
      }
      this.#dueMs.set(chore, clock.monotonicMs() + chore.everyMs);
    }
    return more;
  }

  /** @returns whether there may be more to merge now */
  async #merge(group: MergeGroup, choice: GroupMerge): Promise<boolean> {
    const { merger, logger } = this.#o;
    const { viewSet, audience } = group;
    try {
      const request = { viewSet, audiences: audiencesOf(group), ...choice };
      const partitions = await merger.merge(request, this.#stopping.signal);
      this.#backoff.delete(keyOf(group));
      return this.#note(group, choice, partitions);
    } catch (error) {
      // Another process is at it, or was: what is left is found again.
      if (this.#stopped() || (error instanceof ServiceError && error.code === "CONFLICT")) {
        return false;
      }
      const inMs = this.#backOff(group);
      this.#counts.failures.inc();
      // Somebody else merges the table, or has just retired some of these partitions.
      const busy = error instanceof ServiceError && error.retryable;
      logger[busy ? "info" : "warn"](
        { viewSet, audience, objects: choice.partitionIds.length, again: inMs / 1000, err: error },
        `a merge of ${viewSet} failed; trying again in ${Math.ceil(inMs / 1000)} s`,
      );
      return false;
    }
  }

  /** Counts what a merge did, and remembers what need not be tried again. */
  #note(
    { viewSet, objects }: MergeGroup,
    { partitionIds }: GroupMerge,
    partitions: readonly MergedPartition[],
  ): boolean {
    const created = partitions.filter(({ action }) => action === "created");
    const replaced = partitions.filter(({ action }) => action === "replaced");
    const bad = partitions.filter(({ action }) => action === "unreadable");
    const counts = this.#counts;
    counts.merges.inc();
    const rows = created.reduce((sum, { rowCount }) => sum + rowCount, 0);
    this.#roundRows += rows;
    counts.rows.inc(rows);
    counts.objectsIn.inc(replaced.length);
    // It may have taken what has arrived since the look, too.
    counts.backlog.dec(Math.min(replaced.length, objects));
    counts.objectsOut.inc(created.length);
    const gone = new Set(replaced.map(({ partitionId }) => partitionId));
    // Written by another version, with columns that this one does not know; or large, and not like the others. Beside
    // missing and damaged objects, what they would have been merged with.
    this.#leaveAlone(
      partitionIds.filter((id) => !gone.has(id)),
      bad.length === 0 ? Number.POSITIVE_INFINITY : this.#o.clock.monotonicMs() + badForMs,
    );
    if (bad.length > 0) {
      counts.failures.inc();
      const { message } = new BadObjects(bad.map(({ path }) => path));
      this.#o.logger.warn({ viewSet, objects: bad.length }, `merges of ${viewSet} go on without some: ${message}`);
    }
    return replaced.length > 0;
  }

  #leaveAlone(partitionIds: readonly string[], untilMs: number): void {
    if (this.#leftAlone.size + partitionIds.length > maxRemembered) {
      this.#leftAlone.clear();
    }
    for (const id of partitionIds) {
      this.#leftAlone.set(id, untilMs);
    }
  }

  /** Partitions to leave alone now. */
  #except(): string[] {
    const nowMs = this.#o.clock.monotonicMs();
    return [...this.#leftAlone].flatMap(([id, untilMs]) => (untilMs > nowMs ? [id] : []));
  }

  #backOff(group: MergeGroup): number {
    const failures = (this.#backoff.get(keyOf(group))?.failures ?? 0) + 1;
    const ms = Math.min(this.#o.intervalMs * 2 ** Math.min(failures - 1, 20), maxBackoffMs);
    if (this.#backoff.size >= maxRemembered) {
      this.#backoff.clear();
    }
    this.#backoff.set(keyOf(group), { failures, untilMs: this.#o.clock.monotonicMs() + ms });
    return ms;
  }

  /** @returns false when maintenance stops */
  async #pause(ms: number): Promise<boolean> {
    await wait(ms, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
    return !this.#stopped();
  }

  #stopped(): boolean {
    return this.#stopping.signal.aborted;
  }
}

const keyOf = ({ viewSet, audience }: MergeGroup): string => `${viewSet}/${audience ?? ""}`;

type MaintenanceCounts = ReturnType<typeof createCounts>;

function createCounts(metrics: Metrics) {
  const objects = metrics.counter("maintenance_objects_total", "Objects that merges of maintenance took and made", [
    "what",
  ]);
  return {
    leads: metrics.gauge("maintenance_leader", "1 while this process does the chores, as one of several"),
    backlog: metrics.gauge("maintenance_backlog_objects", "Objects that are due to be merged"),
    merges: metrics.counter("maintenance_merges_total", "Merges that maintenance has made"),
    failures: metrics.counter("maintenance_failures_total", "Merges and looks that failed"),
    rows: metrics.counter("maintenance_rows_total", "Rows that maintenance has merged"),
    objectsIn: objects.labels("taken"),
    objectsOut: objects.labels("made"),
    lastSuccess: metrics.gauge(
      "maintenance_last_success_timestamp_seconds",
      "When this process last found nothing left to merge",
    ),
  };
}
