/** Which rows of a view a query wants, as far as its conditions tell: bounds of time, a process, traces. */
import { ServiceError } from "../../runtime/errors.js";
import type { Constraint, TimeConstraint } from "../gate/constraints.js";
import type { Scan } from "../gate/gated-tree.js";
import type { AttributeColumn } from "../sql/file-source.js";
import { exactTime, type TimeSlack } from "../sql/file-view.js";
import { fileViews, isFileView, type ViewName } from "../sql/views.js";

/** One view that the query reads, and what is known about the rows it wants. */
export interface ScanBounds {
  /** Table name in the executed query. */
  readonly name: string;
  readonly view: ViewName;
  readonly processId: string | null;
  /** The trace that the call is about, which this table stands for. */
  readonly ofTrace: string | null;
  /** The only traces whose rows are wanted, each once, when the query lists them; else null. */
  readonly traceIds: readonly string[] | null;
  /** Inclusive bounds of the lake's `time`, nanoseconds since the epoch; null where there is none. */
  readonly minTimeNs: bigint | null;
  readonly maxTimeNs: bigint | null;
  /** Attributes that it reads as columns. */
  readonly attributes: readonly AttributeColumn[];
  /**
   * Times between these (included) meet every condition on `svc_compared_time`, nanoseconds since the epoch; null: its
   * rows do not have that column.
   */
  readonly comparedWithNs: { readonly min: bigint; readonly max: bigint } | null;
  /** All columns that it reads; null: it may read any. */
  readonly columns: readonly string[] | null;
}

/** What the time of a view has to be widened by; null for one without. */
export function timeOf(view: ViewName): TimeSlack | null {
  if (isFileView(view)) {
    return fileViews[view].time;
  }
  return view === "query_log" || view === "usage" ? exactTime : null;
}

/** The values of times that were evaluated, in their order. */
export type Times = Iterator<bigint | null>;

/** The next of them. */
export function nextOf(times: Times): bigint | null {
  const { done, value } = times.next();
  if (done === true) {
    throw new ServiceError("INTERNAL");
  }
  return value;
}

/** Comparisons may round one side to microseconds. */
const roundingNs = 1000n;

/** The bounds of a view that a query reads, by the values of the times that it compares with. */
export function boundsOf(scan: Scan, times: Times): ScanBounds {
  const { name, view, processId, ofTrace, attributes } = scan;
  const time = timeOf(view);
  const bounds = time === null ? [] : scan.constraints.map((place) => timeBoundsOf(place, times));
  // Of the conditions of one place all hold; rows that any place wants are wanted.
  const min = widest(
    bounds.map((of) => latest(of.filter(({ kind }) => kind === "min"))),
    (a, b) => a < b,
  );
  const max = widest(
    bounds.map((of) => earliest(of.filter(({ kind }) => kind === "max"))),
    (a, b) => a > b,
  );
  return {
    name,
    view,
    processId,
    ofTrace,
    traceIds: ofTrace === null ? listedTraces(scan) : [ofTrace],
    minTimeNs: min === null || time === null ? null : min - roundingNs - time.slackBeforeNs,
    maxTimeNs: max === null || time === null ? null : max + roundingNs + time.slackAfterNs,
    attributes,
    comparedWithNs: scan.comparesTime ? comparedWith(bounds.flat()) : null,
    columns: scan.columns,
  };
}

/** A bound and its value, null when it is no time. */
type TimeBound = TimeConstraint & { readonly valueNs: bigint | null };

function timeBoundsOf(place: readonly Constraint[], times: Times): TimeBound[] {
  return place.flatMap((constraint) =>
    constraint.kind === "min" || constraint.kind === "max" ? [{ ...constraint, valueNs: nextOf(times) }] : [],
  );
}

const latest = (bounds: readonly TimeBound[]): bigint | null => extreme(bounds, (a, b) => a > b);
const earliest = (bounds: readonly TimeBound[]): bigint | null => extreme(bounds, (a, b) => a < b);

/** Of the values that are known. */
function extreme(bounds: readonly TimeBound[], isBeyond: (a: bigint, b: bigint) => boolean): bigint | null {
  let found: bigint | null = null;
  for (const { valueNs } of bounds) {
    if (valueNs !== null && (found === null || isBeyond(valueNs, found))) {
      found = valueNs;
    }
  }
  return found;
}

const always = { min: -(2n ** 64n), max: 2n ** 64n };
const never = { min: 1n, max: 0n };

/** The times that meet the conditions of all places that stand on `svc_compared_time`, for certain. */
function comparedWith(bounds: readonly TimeBound[]): { readonly min: bigint; readonly max: bigint } {
  const compared = bounds.filter(({ column }) => column !== null);
  if (compared.some(({ valueNs }) => valueNs === null)) {
    return never;
  }
  const min = latest(compared.filter(({ kind }) => kind === "min"));
  const max = earliest(compared.filter(({ kind }) => kind === "max"));
  return {
    min: min === null ? always.min : min + roundingNs,
    max: max === null ? always.max : max - roundingNs,
  };
}

/** Traces that any place lists; null when one of them lists none. */
function listedTraces(scan: Scan): string[] | null {
  const wanted = new Set<string>();
  for (const place of scan.constraints) {
    const list = place.find((constraint) => constraint.kind === "traces");
    if (list === undefined) {
      return null;
    }
    for (const traceId of list.traceIds) {
      wanted.add(traceId);
    }
  }
  return [...wanted];
}

/** The widest of the places' bounds; a place without a bound wants all rows. */
function widest(bounds: readonly (bigint | null)[], isWider: (a: bigint, b: bigint) => boolean): bigint | null {
  let widestBound: bigint | null = null;
  for (const bound of bounds) {
    if (bound === null) {
      return null;
    }
    if (widestBound === null || isWider(bound, widestBound)) {
      widestBound = bound;
    }
  }
  return widestBound;
}
