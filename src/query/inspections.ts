/**
 * Inspections of statements: whether they may run, what they read, and what they return. In this order: deny list, gate
 * (both in turns), admin calls that have ended engines.
 */
import { LRUMap } from "../runtime/collections/lru-map.js";

import type { Clock } from "../runtime/clock.js";
import type { DenialRules } from "./admin/denials.js";
import type { AskOptions, QueryBackend } from "./backend/backend.js";
import type { Inspection } from "./backend/inspect.js";
import type { FairQueue } from "../runtime/turns/fair-queue.js";
import { sqlHashOf } from "./fingerprint.js";
import type { BoundParameter, ParameterUse } from "./gate/parameters.js";
import type { LethalStatements } from "./lethal-statements.js";
import type { QueryStatement } from "./statement.js";

/** What {@link Inspections} are made with. */
export interface InspectionsOptions {
  readonly backend: Pick<QueryBackend, "inspect" | "inspectSets">;
  readonly denials: DenialRules;
  /** Turns for inspections, which do not wait behind queries that run. */
  readonly inspections: FairQueue;
  readonly lethal: LethalStatements;
  readonly clock: Clock;
}

/** Inspections that are kept, so that a query that was described is not inspected again to run. */
const cachedInspections = 256;
const maxCachedText = 1 << 16;
/** Bounds that move with the clock are as old as the inspection: early, hence safe, but ever wider. */
const inspectionLifeMs = 60_000;
/** Sets of values that are inspected in one turn. */
const inspectedAtOnce = 100;

/** See the head of the file. Holds no state but a cache. */
export class Inspections {
  readonly #o: InspectionsOptions;
  readonly #known = new LRUMap<string, { readonly inspection: Inspection; readonly atMs: number }>(cachedInspections);

  constructor(o: InspectionsOptions) {
    this.#o = o;
  }

  /**
   * Inspects a statement unless the deny list refuses it, which is asked first: a rule may be there because of what an
   * inspection costs. Admins can always get at the list itself, whatever a rule of it says.
   * @param onInspected told of the inspection also when a rule, or a loss of engines, refuses the statement after it
   */
  async allowed(
    statement: QueryStatement,
    parameters: ParameterUse,
    onInspected: (inspection: Inspection) => void,
  ): Promise<Inspection> {
    const { denials, lethal } = this.#o;
    const { sql, caller, identity, admin, signal } = statement;
    const context = {
      user: identity,
      email: caller.principal.email ?? "",
      client: caller.client,
      sql,
      sql_hash: sqlHashOf(sql),
    };
    const rule = await denials.match(context, signal, (work) => this.#turn(statement, work));
    if (rule !== null && !admin) {
      throw denials.refuse(rule);
    }
    const inspection = await this.inspect(statement, parameters);
    onInspected(inspection);
    if (inspection.calls.length > 0) {
      // They act while the query is planned, before it is known what it reads.
      lethal.check(identity, inspection.fingerprint);
    }
    if (rule !== null && !inspection.calls.some(({ name }) => denialFunctions.has(name))) {
      throw denials.refuse(rule);
    }
    return inspection;
  }

  /** Inspects a statement, whatever the deny list says. @throws ServiceError BAD_REQUEST with the reason */
  async inspect(statement: QueryStatement, parameters: ParameterUse): Promise<Inspection> {
    const { sql, admin } = statement;
    const key = `${admin ? "admin" : "other"} ${JSON.stringify(parameters)} ${sql}`;
    const known = this.#known.get(key);
    const nowMs = this.#o.clock.monotonicMs();
    if (known !== undefined && nowMs - known.atMs < inspectionLifeMs) {
      return known.inspection;
    }
    const use = parameters.length === 0 ? "none" : parameters;
    const inspection = await this.#inTurn(statement, (ask) =>
      this.#o.backend.inspect(sql, ask, { parameters: use, admin }),
    );
    // The times of an admin call are taken when it is made.
    if (key.length <= maxCachedText && inspection.calls.length === 0) {
      this.#known.set(key, { inspection, atMs: nowMs });
    }
    return inspection;
  }

  /** Inspections of further sets of values, which nobody will ask for again. */
  async inspectSets(statement: QueryStatement, sets: readonly (readonly BoundParameter[])[]): Promise<Inspection[]> {
    const { sql, admin } = statement;
    const inspections: Inspection[] = [];
    for (let i = 0; i < sets.length; i += inspectedAtOnce) {
      const some = sets.slice(i, i + inspectedAtOnce);
      const inspected = await this.#inTurn(statement, (ask) => this.#o.backend.inspectSets(sql, some, ask, admin));
      inspections.push(...inspected);
    }
    return inspections;
  }

  async #inTurn<T>(statement: QueryStatement, inspection: (ask: AskOptions) => Promise<T>): Promise<T> {
    const { sql, identity, signal } = statement;
    const { lethal } = this.#o;
    const hash = sqlHashOf(sql);
    lethal.check(identity, hash);
    const onLoss = (): void => {
      lethal.lost(identity, hash);
    };
    return this.#turn(statement, () => inspection({ signal, onLoss }));
  }

  /** Waits for a turn: a caller with many inspections, or with long ones, does not delay others. */
  async #turn<T>({ identity, signal }: QueryStatement, work: () => Promise<T>): Promise<T> {
    const place = await this.#o.inspections.acquire(identity, signal);
    try {
      return await work();
    } finally {
      place.release();
    }
  }
}

const denialFunctions: ReadonlySet<string> = new Set([
  "deny_queries",
  "list_query_denials",
  "remove_query_denial",
  "test_query_denial",
]);
