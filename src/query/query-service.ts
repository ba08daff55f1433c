/**
 * Queries of an authenticated caller, over any protocol: describe, and run. In this order: deny list,
 * gate (in turns), a place (fair queue), admin functions, plan, statements that have ended engines, run; and every query
 * is recorded.
 */
import { principalIdentity } from "../auth/principal.js";
import type { ReadPolicy } from "../auth/grants/read-policy.js";
import { readSnapshot, type Sql } from "../db/sql.js";
import type { HeldFiles, LakeFiles, NeededObject } from "../lake/cache/lake-files.js";
import { ServiceError } from "../runtime/errors.js";
import { quoteName } from "../runtime/text/sql-text.js";
import type { ArrowField } from "../wire/flight/flight-arrow.js";
import type { PartitionMerger } from "./admin/admin.js";
import type { AskOptions, QueryBackend, QueryStream } from "./backend/backend.js";
import type { Inspection } from "./backend/inspect.js";
import type { QuerySources } from "./backend/run.js";
import type { ClusterQueries } from "./cluster/cluster-queries.js";
import type { EngineChoice } from "./cluster/engine-choice.js";
import type { FairQueue, Place } from "../runtime/turns/fair-queue.js";
import type { BoundParameter, ParameterUse } from "./gate/parameters.js";
import { Inspections, type InspectionsOptions } from "./inspections.js";
import { type Plan, planSources, type QueryRange } from "./plan.js";
import type { QueryLog } from "./query-log.js";
import { type QueryRecord, startRecord } from "./query-record.js";
import { inSequence } from "./sequence.js";
import { type ViewName, viewNamesFor } from "./sql/views.js";
import type { QueryCaller, QueryStatement } from "./statement.js";

/** What {@link QueryService} is made of. */
export interface QueryServiceOptions extends InspectionsOptions {
  readonly backend: QueryBackend;
  readonly policy: ReadPolicy;
  /** `SVC_UNSTAMPED_AUDIENCE`. */
  readonly unstampedAudience: string;
  readonly sql: Sql;
  readonly files: LakeFiles;
  readonly merger: PartitionMerger;
  readonly queue: FairQueue;
  readonly log: QueryLog;
  /** Queries that are too large for this machine; absent: there is no cluster. */
  readonly cluster?: ClusterService;
}

/** A cluster and how it finds objects. */
export interface ClusterService {
  readonly queries: Pick<ClusterQueries, "decide" | "run">;
  /** The URI of an object for the cluster. */
  readonly uriOf: (path: string) => string;
}

/** A query as it is run. */
interface QueryRequest {
  readonly sql: string;
  readonly range: QueryRange;
  /** Values of a prepared statement's parameters, once for each time that it runs; none: it has no parameters. */
  readonly sets: readonly (readonly BoundParameter[])[];
  /** Where it runs; `auto` by default. */
  readonly engine?: EngineChoice;
}

/** A query that has begun. */
interface RunningQuery extends QueryStream {
  /** Objects of the lake that it reads. */
  readonly objects: number;
}

/** Describes and runs queries. */
export class QueryService {
  readonly #o: QueryServiceOptions;
  readonly #inspections: Inspections;

  constructor(o: QueryServiceOptions) {
    this.#o = o;
    this.#inspections = new Inspections(o);
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
  async describeTable(caller: QueryCaller, name: ViewName, signal: AbortSignal): Promise<readonly ArrowField[]> {
    const statement = await this.#statement(caller, tableSql(name), signal);
    return (await this.#inspections.inspect(statement, [])).fields;
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
  async run(caller: QueryCaller, request: QueryRequest, signal: AbortSignal): Promise<RunningQuery> {
    const { sql, range, sets } = request;
    const { backend, queue, lethal } = this.#o;
    const record = startRecord(this.#o, caller, sql, signal);
    let place: Place | null = null;
    const held: { files: HeldFiles | null } = { files: null };
    try {
      const statement = await this.#statement(caller, sql, signal);
      const [first, ...further] = sets;
      const inspection = await this.#allowed(statement, first ?? [], record);
      const inspections = [inspection, ...(await this.#inspections.inspectSets(statement, further))];
      place = await queue.acquire(statement.identity, signal);
      const plans = await this.#plan({ ...statement, signal: place.signal }, inspections, range);
      const rows = plans.reduce((sum, plan) => sum + plan.rows, 0);
      lethal.check(statement.identity, inspection.fingerprint, rows);
      const ask = {
        signal: place.signal,
        onLoss: () => {
          lethal.lost(statement.identity, inspection.fingerprint, rows);
        },
      };
      record.partitions = plans.reduce((sum, { objects }) => sum + objects.length, 0);
      // Sets of values often share a plan.
      const objects = [...new Set(plans)].flatMap((plan) => plan.objects);
      const local = async (note?: string): Promise<QueryStream> => {
        const files = await this.#o.files.hold(objects, ask.signal);
        held.files = files;
        // The columns of the result are called what they are with the first values. What is called otherwise within them
        // with other values makes another result of it.
        const { names = [], numbersOnly = false } = inspection.executable;
        const called = further.length === 0 ? names : names.map(({ name }) => ({ name, children: [] }));
        const starts = plans.map((plan, i) => () => {
          const { executable } = inspections[i] ?? inspection;
          const named = { ...executable, names: called, numbersOnly };
          return backend.run(named, plan.sources(files), note === undefined ? ask : { ...ask, note });
        });
        const [only, ...more] = starts;
        return only === undefined || more.length > 0 ? inSequence(starts, ask.signal) : only();
      };
      const stream = await this.#start(request, { plans, inspection, objects, record, ask }, local);
      void settle(stream, place, () => held.files, record);
      return paced(stream, place, record.partitions);
    } catch (error) {
      held.files?.release(false);
      place?.release();
      record.failed(error);
      throw error;
    }
  }

  /** Starts a query on this machine, or on the cluster, and has that recorded. */
  async #start(
    { engine = "auto", sets }: QueryRequest,
    { plans, inspection, objects, record, ask }: Planned,
    local: (note?: string) => Promise<QueryStream>,
  ): Promise<QueryStream> {
    const { cluster } = this.#o;
    const [plan, ...more] = plans;
    if (cluster === undefined) {
      if (engine === "cluster") {
        throw new ServiceError("BAD_REQUEST", "There is no cluster here (SVC_QUERY_CLUSTER_URI).");
      }
      return local();
    }
    if (plan === undefined || more.length > 0 || sets.length > 1) {
      if (engine === "cluster") {
        throw new ServiceError("BAD_REQUEST", "A statement with several sets of values runs on this machine only.");
      }
      record.engine = { name: "local", reason: "several sets of values" };
      return local();
    }
    const { executable, fields } = inspection;
    const seen = new Set<string>();
    let bytes = 0;
    for (const { path, fileBytes } of objects) {
      bytes += seen.has(path) ? 0 : fileBytes;
      seen.add(path);
    }
    const sources = (): QuerySources => plan.sources({ fileOf: ({ path }) => cluster.uriOf(path) }, false);
    const decision = await cluster.queries.decide({ choice: engine, executable, fields, bytes, sources }, ask);
    if (decision.engine === "local" || executable.explain !== "none") {
      record.engine = { name: "local", reason: decision.engine === "local" ? decision.reason : "EXPLAIN" };
      return local(`${decision.engine}: ${decision.reason}`);
    }
    record.engine = { name: "cluster", reason: decision.reason };
    const fallback = engine === "cluster" ? null : () => local();
    return cluster.queries.run(decision.statement, ask, fallback, (reason) => {
      record.engine = { name: "local", reason };
    });
  }

  async #described(
    caller: QueryCaller,
    sql: string,
    signal: AbortSignal,
    parameters: ParameterUse,
  ): Promise<Inspection> {
    const record = startRecord(this.#o, caller, sql, signal);
    try {
      const statement = await this.#statement(caller, sql, signal);
      return await this.#allowed(statement, parameters, record);
    } catch (error) {
      // It will not run, so this is what there is to record.
      record.failed(error);
      throw error;
    }
  }

  async #statement(caller: QueryCaller, sql: string, signal: AbortSignal): Promise<QueryStatement> {
    const { principal } = caller;
    const admin = await this.#o.policy.isAdmin(principal);
    return { sql, caller, identity: principalIdentity(principal), admin, signal };
  }

  #allowed(statement: QueryStatement, parameters: ParameterUse, record: QueryRecord): Promise<Inspection> {
    return this.#inspections.allowed(statement, parameters, ({ fingerprint }) => {
      record.fingerprint = fingerprint;
    });
  }

  /** Plans over one state of the catalogue; plans of queries that read the same are one. */
  async #plan(
    { caller, identity, admin, signal }: QueryStatement,
    inspections: readonly Inspection[],
    range: QueryRange,
  ): Promise<Plan[]> {
    const { policy, unstampedAudience, sql, files, denials, merger, clock } = this.#o;
    const { issuer, subject } = caller.principal;
    const by = { caller: { name: identity, issuer, subject }, origin: caller.origin };
    const context = {
      files,
      audiences: await policy.readAudiences(caller.principal),
      unstampedAudience,
      range,
      admin: admin ? { denials, merger, signal, by, nowMs: clock.nowMs() } : null,
    };
    const planAll = async (catalogue: Sql): Promise<Plan[]> => {
      const known = new Map<string, Plan>();
      const plans: Plan[] = [];
      for (const inspection of inspections) {
        if (signal.aborted) {
          throw new ServiceError("CANCELLED", undefined, { cause: signal.reason });
        }
        const key = inspection.calls.length > 0 ? null : keyOf(inspection);
        const plan =
          (key === null ? undefined : known.get(key)) ??
          (await planSources({ ...context, sql: catalogue }, inspection));
        if (key !== null) {
          known.set(key, plan);
        }
        plans.push(plan);
      }
      return plans;
    };
    // Admin functions write, in transactions of their own.
    const single = inspections.length === 1 || inspections.some(({ calls }) => calls.length > 0);
    return single ? planAll(sql) : readSnapshot(sql, planAll);
  }
}

/** A query between its plan and its start. */
interface Planned {
  readonly plans: readonly Plan[];
  readonly inspection: Inspection;
  readonly objects: readonly NeededObject[];
  readonly record: QueryRecord;
  readonly ask: AskOptions;
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
function paced(stream: QueryStream, place: Place, objects: number): RunningQuery {
  async function* read(): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const message of stream) {
      place.offered();
      yield message;
      place.taken();
    }
  }
  return { ended: stream.ended, signal: stream.signal, objects, [Symbol.asyncIterator]: read };
}

/** What happens when a query is over. Never rejects. */
async function settle(
  stream: QueryStream,
  place: Place,
  held: () => HeldFiles | null,
  record: QueryRecord,
): Promise<void> {
  const { summary, failure } = await stream.ended;
  // A file that cannot be read is such a failure.
  held()?.release(failure?.code === "INTERNAL");
  place.release();
  if (failure === null) {
    record.finished(summary);
  } else {
    record.failed(failure, summary);
  }
}
