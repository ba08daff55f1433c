/** Queries of an authenticated caller, whatever protocol they came by: describe, and run. */
import type { Principal } from "../auth/principal.js";
import type { ReadPolicy } from "../auth/read-policy.js";
import type { Sql } from "../db/sql.js";
import type { ObjectStore } from "../lake/object-store.js";
import type { Clock } from "../runtime/clock.js";
import type { ArrowField } from "../wire/flight-arrow.js";
import type { QueryBackend, QueryStream } from "./backend.js";
import type { Inspection } from "./inspect.js";
import type { BoundParameter } from "./parameters.js";
import { planSources } from "./plan.js";
import type { TicketContent } from "./ticket.js";

/** What {@link QueryService} is made of. */
export interface QueryServiceOptions {
  readonly backend: QueryBackend;
  readonly policy: ReadPolicy;
  readonly sql: Sql;
  readonly store: ObjectStore;
  readonly clock: Clock;
}

/** Inspections that are kept, so that a query that was described is not inspected again to run. */
const cachedInspections = 256;
const maxCachedText = 1 << 16;
/** Bounds that move with the clock are as old as the inspection: early, hence safe, but ever wider. */
const inspectionLifeMs = 60_000;

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

  /**
   * The columns of a query's result. It opens nothing, so it does not depend on the caller.
   * @throws ServiceError BAD_REQUEST with the reason
   */
  async describe(
    sql: string,
    signal: AbortSignal,
    parameters: readonly BoundParameter[] = [],
  ): Promise<readonly ArrowField[]> {
    return (await this.#inspect(sql, signal, parameters)).fields;
  }

  /**
   * The columns of a statement's result and the parameters that it asks for.
   * @throws ServiceError BAD_REQUEST with the reason
   */
  async prepare(
    sql: string,
    signal: AbortSignal,
  ): Promise<Pick<Inspection, "fields" | "parameters">> {
    return this.#inspect(sql, signal, "declare");
  }

  /**
   * Runs a query over what the caller may read.
   * @throws ServiceError BAD_REQUEST, UNAVAILABLE, PAYLOAD_TOO_LARGE before anything runs; the stream throws the rest
   */
  async run(
    principal: Principal,
    content: TicketContent,
    signal: AbortSignal,
  ): Promise<QueryStream> {
    const { policy, sql, store, backend } = this.#o;
    const inspection = await this.#inspect(content.sql, signal, content.parameters ?? []);
    const audiences = await policy.readAudiences(principal);
    const plan = await planSources({ sql, store, audiences, range: content.range }, inspection);
    return backend.run(inspection.executable, plan.sources, signal);
  }

  async #inspect(
    sql: string,
    signal: AbortSignal,
    parameters: "declare" | readonly BoundParameter[],
  ): Promise<Inspection> {
    const key = parameters.length === 0 ? sql : `${JSON.stringify(parameters)} ${sql}`;
    const known = this.#inspections.get(key);
    const nowMs = this.#o.clock.monotonicMs();
    if (known !== undefined && nowMs - known.atMs < inspectionLifeMs) return known.inspection;
    this.#inspections.delete(key);
    const use = parameters.length === 0 ? "none" : parameters;
    const inspection = await this.#o.backend.inspect(sql, signal, use);
    if (key.length <= maxCachedText) {
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
