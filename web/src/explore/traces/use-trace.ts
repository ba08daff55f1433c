/** A trace by its id. */
import { useEffect, useMemo, useRef, useState } from "react";

import { type SqlState, useQuerySql } from "../../api/use-query-sql.js";
import { isTraceId } from "../trace-address.js";
import { mayReachBeyond, type Trace, traceOf, traceSql } from "./trace-model.js";

interface TraceState {
  readonly query: SqlState;
  /** Null until it is there as a whole; while it is read again, as it was. */
  readonly trace: Trace | null;
  /** It was looked for everywhere. */
  readonly isMissing: boolean;
  /** Spans of everywhere are in it: those of around some time stay until these are there. */
  readonly isOfEverywhere: boolean;
  /** Where it is looked for; null: everywhere. */
  readonly range: { readonly beginMs: number; readonly endMs: number } | null;
}

const reachMs = 3_600_000;

/**
 * Looks around some time of the trace, and everywhere when it is not there, or may not be there as a whole.
 * @param at that time in ISO 8601; null: unknown. Another trace takes another component.
 */
export function useTrace(id: string, at: string | null): TraceState {
  const atMs = Date.parse(at ?? "");
  const [isTooNarrow, setTooNarrow] = useState(false);
  const everywhere = isTooNarrow || Number.isNaN(atMs);
  const range = everywhere ? null : { beginMs: atMs - reachMs, endMs: atMs + reachMs };
  const query = useQuerySql(traceSql, { parameters: [id], range, enabled: isTraceId(id) });
  const isNotThere = query.summary !== null && query.result?.rows === 0;
  // A tree that is not whole yet is none: the one before stays, and what somebody does with it.
  const latest = useRef<{ readonly trace: Trace | null; readonly isOfEverywhere: boolean }>({
    trace: null,
    isOfEverywhere: false,
  });
  const { trace, isOfEverywhere } = useMemo(() => {
    if (query.result !== null && query.summary !== null && query.result.rows > 0) {
      latest.current = { trace: traceOf(query.result), isOfEverywhere: everywhere };
    }
    return latest.current;
  }, [query.summary]);
  const isInPart = query.summary !== null && trace !== null && range !== null && mayReachBeyond(trace, range);
  useEffect(() => {
    if (isNotThere || isInPart) {
      setTooNarrow(true);
    }
  }, [isNotThere, isInPart]);
  const isMissing = !isTraceId(id) || (isNotThere && everywhere && !query.running);
  return { query, trace, isOfEverywhere, isMissing, range };
}
