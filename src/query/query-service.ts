/**
 * Queries of an authenticated caller, whatever protocol they came by: describe, and run. In this order:
 * deny list, gate (in turns), a place (fair queue), admin functions, plan, run; and every query is recorded.
 */
import { type Principal, principalIdentity } from "../auth/principal.js";
import type { ReadPolicy } from "../auth/grants/read-policy.js";
import { readSnapshot, type Sql } from "../db/sql.js";
import type { ObjectStore } from "../lake/store/object-store.js";
import type { Clock } from "../runtime/clock.js";
import { ServiceError, toServiceError } from "../runtime/errors.js";
import type { ArrowField } from "../wire/flight/flight-arrow.js";
import type { PartitionMerger } from "./admin/admin.js";
import type { AskOptions, QueryBackend, QueryStream } from "./backend/backend.js";
import type { DenialRules } from "./admin/denials.js";
import type { FairQueue, Place } from "./fair-queue.js";
import { sqlHashOf } from "./gate/fingerprint.js";
import type { Inspection } from "./backend/inspect.js";
import type { LethalStatements } from "./lethal-statements.js";
import type { BoundParameter } from "./gate/parameters.js";
import { type Plan, planSources, type QueryRange } from "./plan.js";
import type { QueryLog } from "./query-log.js";
import type { QuerySummary } from "./backend/run.js";
import { inSequence } from "./sequence.js";
import { quoteName, type ViewName, viewNamesFor } from "./sql/views.js";

/** What {@link QueryService} is made of. */
export interface QueryServiceOptions {
  readonly backend: QueryBackend;
  readonly policy: ReadPolicy;
  /** `SVC_UNSTAMPED_AUDIENCE`. */
  readonly unstampedAudience: string;
  readonly sql: Sql;
  readonly store: ObjectStore;
  readonly denials: DenialRules;
  readonly merger: PartitionMerger;
  readonly queue: FairQueue;
  /** Turns for inspections, which do not wait behind queries that run. */
  readonly inspections: FairQueue;
  readonly lethal: LethalStatements;
  readonly log: QueryLog;
  readonly clock: Clock;
}

/** Who asks, and with what. */
export interface QueryCaller {
  readonly principal: Principal;
  /** What the client says it is (`user-agent`); for the log and the deny list only. */
  readonly client: string;
}

/** A query as it is run. */
export interface QueryRequest {
  readonly sql: string;
  readonly range: QueryRange;
  /** Values of a prepared statement's parameters, once for each time that it runs; none: it has no parameters. */
  readonly sets: readonly (readonly BoundParameter[])[];
}

/** Inspections that are kept, so that a query that was described is not inspected again to run. */
const cachedInspections = 256;
const maxCachedText = 1 << 16;
/** Bounds that move with the clock are as old as the inspection: early, hence safe, but ever wider. */
const inspectionLifeMs = 60_000;
/** Sets of values that are inspected in one turn. */
const inspectedAtOnce = 100;

/** Describes and runs queries. Holds no state but a cache. */
export class QueryService {
  readonly #o: QueryServiceOptions;
  readonly #inspections = new Map<
    string,
    { readonly inspection: Inspection; readonly atMs: number }
  >();

  constructor(o: QueryServiceOptions) {
    this.#o = o;
  }

  /** The tables that a caller may name, sorted. */
  async tableNames({ principal }: QueryCaller): Promise<readonly ViewName[]> {
    return viewNamesFor(await this.#o.policy.isAdmin(principal));
  }

  /**
   * The columns of a query's result. It opens nothing and changes nothing.
   * @throws ServiceError BAD_REQUEST with the reason; FORBIDDEN when the deny list refuses it
   */
  async describe(
    caller: QueryCaller,
    sql: string,
    signal: AbortSignal,
    parameters: readonly BoundParameter[] = [],
  ): Promise<readonly ArrowField[]> {
    return (await this.#described(caller, sql, signal, parameters)).fields;
  }

  /**
   * The columns of a table. Nobody's query: it is not recorded, and the deny list has no say in it.
   * @throws ServiceError BAD_REQUEST when the caller knows no such table
   */
  async describeTable(
    { principal }: QueryCaller,
    name: ViewName,
    signal: AbortSignal,
  ): Promise<readonly ArrowField[]> {
    const admin = await this.#o.policy.isAdmin(principal);
    const identity = principalIdentity(principal);
    const { fields } = await this.#inspect(identity, tableSql(name), signal, [], admin);
    return fields;
  }

  /**
   * The columns of a statement's result and the parameters that it asks for.
   * @throws ServiceError as {@link describe}
   */
  async prepare(
    caller: QueryCaller,
    sql: string,
    signal: AbortSignal,
  ): Promise<Pick<Inspection, "fields" | "parameters">> {
    return this.#described(caller, sql, signal, "declare");
  }

  /**
   * Runs a query over what the caller may read. However many sets of values it has, it is one query: it waits once for
   * a place, reads one state of the catalogue, and is recorded once.
   * @throws ServiceError BAD_REQUEST, FORBIDDEN, UNAVAILABLE, OVERLOADED, PAYLOAD_TOO_LARGE before anything runs; the
   *   stream throws the rest
   */
  async run(
    caller: QueryCaller,
    { sql, range, sets }: QueryRequest,
    signal: AbortSignal,
  ): Promise<QueryStream> {
    const { policy, backend, queue, lethal } = this.#o;
    const audit = this.#audit(caller, sql, signal);
    const identity = principalIdentity(caller.principal);
    let place: Place | null = null;
    try {
      const admin = await policy.isAdmin(caller.principal);
      const [first, ...further] = sets;
      const inspection = await this.#inspectAllowed(caller, sql, signal, first ?? [], admin, audit);
      const inspections = [
        inspection,
        ...(await this.#inspectSets(identity, sql, signal, further, admin)),
      ];
      place = await queue.acquire(identity, signal);
      const ask = {
        signal: place.signal,
        onLoss: () => {
          lethal.lost(identity, inspection.fingerprint);
        },
      };
      const plans = await this.#plan(caller.principal, inspections, range, admin, ask.signal);
      audit.planned(plans.reduce((sum, { partitions }) => sum + partitions, 0));
      const starts = plans.map(({ sources }, i) => () => {
        const { executable } = inspections[i] ?? inspection;
        return backend.run(executable, sources, ask);
      });
      const [only, ...more] = starts;
      const stream =
        only === undefined || more.length > 0 ? inSequence(starts, ask.signal) : only();
      void settle(stream, place, audit);
      return paced(stream, place);
    } catch (error) {
      place?.release();
      audit.failed(error);
      throw error;
    }
  }

  /** Plans over one state of the catalogue; plans of queries that read the same are one. */
  async #plan(
    principal: Principal,
    inspections: readonly Inspection[],
    range: QueryRange,
    admin: boolean,
    signal: AbortSignal,
  ): Promise<Plan[]> {
    const { policy, unstampedAudience, sql, store, denials, merger, clock } = this.#o;
    const identity = principalIdentity(principal);
    const context = {
      store,
      audiences: await policy.readAudiences(principal),
      unstampedAudience,
      range,
      admin: admin ? { denials, merger, signal, identity, nowMs: clock.nowMs() } : null,
    };
    const planAll = async (catalogue: Sql): Promise<Plan[]> => {
      const known = new Map<string, Plan>();
      const plans: Plan[] = [];
      for (const inspection of inspections) {
        if (signal.aborted)
          throw new ServiceError("CANCELLED", undefined, { cause: signal.reason });
        const key = inspection.calls.length > 0 ? null : keyOf(inspection);
        const plan =
          (key === null ? undefined : known.get(key)) ??
          (await planSources({ ...context, sql: catalogue }, inspection));
        if (key !== null) known.set(key, plan);
        plans.push(plan);
      }
      return plans;
    };
    // Admin functions write, in transactions of their own.
    const single = inspections.length === 1 || inspections.some(({ calls }) => calls.length > 0);
    return single ? planAll(sql) : readSnapshot(sql, planAll);
  }

  /** Inspections that nobody will ask for again. */
  async #inspectSets(
    identity: string,
    sql: string,
    signal: AbortSignal,
    sets: readonly (readonly BoundParameter[])[],
    admin: boolean,
  ): Promise<Inspection[]> {
    const inspections: Inspection[] = [];
    for (let i = 0; i < sets.length; i += inspectedAtOnce) {
      const some = sets.slice(i, i + inspectedAtOnce);
      const inspected = await this.#inTurn(identity, sql, signal, (ask) =>
        this.#o.backend.inspectSets(sql, some, ask, admin),
      );
      inspections.push(...inspected);
    }
    return inspections;
  }

  async #described(
    caller: QueryCaller,
    sql: string,
    signal: AbortSignal,
    parameters: "declare" | readonly BoundParameter[],
  ): Promise<Inspection> {
    const audit = this.#audit(caller, sql, signal);
    try {
      const admin = await this.#o.policy.isAdmin(caller.principal);
      return await this.#inspectAllowed(caller, sql, signal, parameters, admin, audit);
    } catch (error) {
      // It will not run, so this is what there is to record.
      audit.failed(error);
      throw error;
    }
  }

  /**
   * Inspects a query unless the deny list refuses it, which is asked first: a rule may be there because of what an
   * inspection costs. Admins can always get at the list itself, whatever a rule of it says.
   */
  async #inspectAllowed(
    caller: QueryCaller,
    sql: string,
    signal: AbortSignal,
    parameters: "declare" | readonly BoundParameter[],
    admin: boolean,
    audit: { readonly inspected: (inspection: Inspection) => void },
  ): Promise<Inspection> {
    const { denials } = this.#o;
    const { principal, client } = caller;
    const identity = principalIdentity(principal);
    const rule = await denials.match(
      {
        user: identity,
        email: principal.email ?? "",
        client,
        sql,
        sql_hash: sqlHashOf(sql),
      },
      signal,
    );
    if (rule !== null && !admin) throw denials.refuse(rule);
    const inspection = await this.#inspect(identity, sql, signal, parameters, admin);
    audit.inspected(inspection);
    this.#o.lethal.check(identity, inspection.fingerprint);
    if (rule !== null && !inspection.calls.some(({ name }) => denialFunctions.has(name))) {
      throw denials.refuse(rule);
    }
    return inspection;
  }

  /** The record of one query, made when it is over. */
  #audit({ principal, client }: QueryCaller, sql: string, signal: AbortSignal) {
    const { clock, log } = this.#o;
    const startMs = clock.nowMs();
    const startedMs = clock.monotonicMs();
    let fingerprint: string | null = null;
    let partitions = 0;
    const record = (outcome: string, summary: QuerySummary | null): void => {
      log.record({
        startMs,
        durationMs: clock.monotonicMs() - startedMs,
        caller: principalIdentity(principal),
        client,
        sql,
        sqlHash: sqlHashOf(sql),
        fingerprint,
        rows: summary?.rows ?? 0,
        bytes: summary?.bytes ?? 0,
        partitions,
        peakMemoryBytes: summary?.peakMemoryBytes ?? null,
        outcome,
      });
    };
    return {
      inspected: (inspection: Inspection): void => {
        ({ fingerprint } = inspection);
      },
      planned: (count: number): void => {
        partitions = count;
      },
      finished: (summary: QuerySummary): void => {
        record("OK", summary);
      },
      failed: (error: unknown, summary: QuerySummary | null = null): void => {
        const reason: unknown = signal.reason;
        const ours = signal.aborted && reason instanceof ServiceError ? reason : error;
        record(toServiceError(ours).code, summary);
      },
    };
  }

  /** Waits for a turn: whoever asks for many inspections, or for long ones, does not keep others waiting. */
  async #inTurn<T>(
    identity: string,
    sql: string,
    signal: AbortSignal,
    inspection: (ask: AskOptions) => Promise<T>,
  ): Promise<T> {
    const { inspections, lethal } = this.#o;
    const hash = sqlHashOf(sql);
    lethal.check(identity, hash);
    const onLoss = (): void => {
      lethal.lost(identity, hash);
    };
    const place = await inspections.acquire(identity, signal);
    try {
      return await inspection({ signal, onLoss });
    } finally {
      place.release();
    }
  }

  async #inspect(
    identity: string,
    sql: string,
    signal: AbortSignal,
    parameters: "declare" | readonly BoundParameter[],
    admin: boolean,
  ): Promise<Inspection> {
    const key = `${admin ? "admin" : "other"} ${JSON.stringify(parameters)} ${sql}`;
    const known = this.#inspections.get(key);
    const nowMs = this.#o.clock.monotonicMs();
    if (known !== undefined && nowMs - known.atMs < inspectionLifeMs) return known.inspection;
    this.#inspections.delete(key);
    const use = parameters.length === 0 ? "none" : parameters;
    const inspection = await this.#inTurn(identity, sql, signal, (ask) =>
      this.#o.backend.inspect(sql, ask, { parameters: use, admin }),
    );
    // The times of an admin call are taken when it is made.
    if (key.length <= maxCachedText && inspection.calls.length === 0) {
      this.#inspections.set(key, { inspection, atMs: nowMs });
      if (this.#inspections.size > cachedInspections) {
        for (const oldest of this.#inspections.keys()) {
          this.#inspections.delete(oldest);
          break;
        }
      }
    }
    return inspection;
  }
}

/** What decides what a query without calls reads. */
function keyOf({ scans, listings }: Inspection): string {
  return JSON.stringify([scans, listings], (_name, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
}

/** A whole table. */
export function tableSql(name: ViewName): string {
  return `SELECT * FROM ${quoteName(name)}`;
}

/** Tells the place when its reader is waited for. */
function paced(stream: QueryStream, place: Place): QueryStream {
  async function* read(): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const message of stream) {
      place.offered();
      yield message;
      place.taken();
    }
  }
  return { ended: stream.ended, signal: stream.signal, [Symbol.asyncIterator]: read };
}

/** What happens when a query is over. Never rejects. */
async function settle(
  stream: QueryStream,
  place: Place,
  audit: {
    readonly finished: (summary: QuerySummary) => void;
    readonly failed: (error: unknown, summary?: QuerySummary) => void;
  },
): Promise<void> {
  const { summary, failure } = await stream.ended;
  place.release();
  if (failure === null) audit.finished(summary);
  else audit.failed(failure, summary);
}

const denialFunctions: ReadonlySet<string> = new Set([
  "deny_queries",
  "list_query_denials",
  "remove_query_denial",
]);
