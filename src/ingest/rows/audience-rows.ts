/** The rows of one write audience in a segment, table by table, and the pool that keeps their memory. */
import type { TableName } from "../../lake/tables/tables.js";
import type { OtlpSignal } from "../../wire/otlp/rpc-status.js";
import type { AudienceIdentity } from "./identity.js";
import { TableState } from "./table-state.js";

/**
 * Sets of builders that are kept per table between segments: a few that have grown, each up to a size, and many small
 * ones, for batches of many audiences.
 */
const keptGrown = 8;
const keptBytes = 48 * 1024 * 1024;
const keptSmall = 512;
const smallBytes = 128 * 1024;

/** Those that have grown are kept and taken first, however many small ones there are. */
type Free = { readonly [T in TableName]: { readonly grown: TableState<T>[]; readonly small: TableState<T>[] } };

/** Builders that no segment uses at present. */
export class TablePool {
  readonly #free: Free = {
    log_entries: { grown: [], small: [] },
    measures: { grown: [], small: [] },
    histograms: { grown: [], small: [] },
    spans: { grown: [], small: [] },
  };
  /** Builders without rows, for tables that an audience has none in. Nobody writes to them. */
  readonly empty: { readonly [T in TableName]: TableState<T> } = {
    log_entries: new TableState("log_entries"),
    measures: new TableState("measures"),
    histograms: new TableState("histograms"),
    spans: new TableState("spans"),
  };

  take<T extends TableName>(name: T): TableState<T> {
    const { grown, small } = this.#free[name];
    return grown.pop() ?? small.pop() ?? new TableState(name);
  }

  /** Takes builders back; what is huge of those that grew beyond measure is freed. */
  give<T extends TableName>(state: TableState<T>): void {
    const { grown, small } = this.#free[state.name];
    const bytes = state.heldBytes();
    const isSmall = bytes <= smallBytes;
    const free: TableState<T>[] = isSmall ? small : grown;
    if (free.length >= (isSmall ? keptSmall : keptGrown) || bytes > keptBytes) {
      state.free();
      return;
    }
    state.reset();
    free.push(state);
  }
}

/** See the head of this file. */
export class AudienceRows {
  readonly identity: AudienceIdentity;
  readonly #pool: TablePool;
  #logs: TableState<"log_entries"> | null = null;
  #measures: TableState<"measures"> | null = null;
  #histograms: TableState<"histograms"> | null = null;
  #spans: TableState<"spans"> | null = null;

  constructor(identity: AudienceIdentity, pool: TablePool) {
    this.identity = identity;
    this.#pool = pool;
  }

  get logs(): TableState<"log_entries"> {
    return (this.#logs ??= this.#pool.take("log_entries"));
  }

  get measures(): TableState<"measures"> {
    return (this.#measures ??= this.#pool.take("measures"));
  }

  get histograms(): TableState<"histograms"> {
    return (this.#histograms ??= this.#pool.take("histograms"));
  }

  get spans(): TableState<"spans"> {
    return (this.#spans ??= this.#pool.take("spans"));
  }

  /** The tables that hold rows of a signal so far; null where there is none. */
  primary(signal: OtlpSignal): TableState | null {
    if (signal === 1) {
      return this.#logs;
    }
    return signal === 2 ? this.#measures : this.#spans;
  }

  /** The second table of a signal: histograms, of metrics. */
  secondary(signal: OtlpSignal): TableState | null {
    return signal === 2 ? this.#histograms : null;
  }

  /** Rows and columns of every table, for the reader of the segment. */
  tables(): { readonly [T in TableName]: { rows: number; columns: TableState<T>["columns"] } } {
    const { empty } = this.#pool;
    const content = <T extends TableName>(state: TableState<T>) => ({
      rows: state.rows,
      columns: state.columns,
    });
    return {
      log_entries: content(this.#logs ?? empty.log_entries),
      measures: content(this.#measures ?? empty.measures),
      histograms: content(this.#histograms ?? empty.histograms),
      spans: content(this.#spans ?? empty.spans),
    };
  }

  /** Gives all builders back to the pool. */
  release(): void {
    if (this.#logs !== null) {
      this.#pool.give(this.#logs);
    }
    if (this.#measures !== null) {
      this.#pool.give(this.#measures);
    }
    if (this.#histograms !== null) {
      this.#pool.give(this.#histograms);
    }
    if (this.#spans !== null) {
      this.#pool.give(this.#spans);
    }
    this.#logs = null;
    this.#measures = null;
    this.#histograms = null;
    this.#spans = null;
  }
}
