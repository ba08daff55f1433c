/** Which log records the address asks for. */
import { useEffect, useMemo, useState } from "react";

import { type SqlState, useQuerySql } from "../../api/use-query-sql.js";
import { useScope } from "../../app/scope.js";
import { textOf, useSearchParameters } from "../../app/search.js";
import { type Condition, conditionOf, type Filter } from "../../ui/filters/filters.js";
import { isExact } from "./log-list.js";
import { logColumns, type LogRows, logRows, logSelect } from "./log-rows.js";
import { type Tail, useTail } from "./use-tail.js";

export const limits = ["1000", "10000", "100000", "1000000"];

interface LogSearch {
  /** In messages. */
  readonly searched: string;
  readonly isPatterns: boolean;
  readonly isLive: boolean;
  readonly limit: string;
  /** Of `searched` alone. */
  readonly text: Condition;
  /** With the filters and the audience. */
  readonly condition: Condition;
}

export function useLogSearch(filters: readonly Filter[]): LogSearch {
  const search = useSearchParameters();
  const { audience } = useScope();
  const searched = (textOf(search["q"]) ?? "").replaceAll("\0", "");
  const isPatterns = textOf(search["view"]) === "patterns";
  const text = useMemo(() => textCondition(searched), [searched]);
  const condition = useMemo(() => {
    const { sql, parameters } = conditionOf(filters, logColumns, audience);
    return { sql: `${sql} AND ${text.sql}`, parameters: [...parameters, ...text.parameters] };
  }, [filters, audience, text]);
  return {
    searched,
    isPatterns,
    isLive: !isPatterns && textOf(search["live"]) === "1",
    limit: limits.find((each) => each === textOf(search["limit"])) ?? "1000",
    text,
    condition,
  };
}

/** The records of a search, and those that came since. */
export interface LogRecords {
  readonly list: SqlState;
  readonly rows: LogRows;
  /** Null: not live. */
  readonly tail: Tail | null;
  readonly paused: boolean;
  readonly setPaused: (paused: boolean) => void;
}

export function useLogRecords({ isPatterns, isLive, limit, condition }: LogSearch): LogRecords {
  const { source } = useScope();
  const list = useQuerySql(`${logSelect} WHERE ${condition.sql} ORDER BY time DESC LIMIT ${limit}`, {
    parameters: condition.parameters,
    enabled: !isPatterns,
  });
  const [paused, setPaused] = useState(false);
  const known = useMemo(() => logRows([], list.result), [list.result]);
  const tail = useTail({ on: isLive, paused, condition, known, dataSource: source });
  const rows = useMemo(() => logRows(tail.entries, list.result), [tail.entries, list.result]);
  // Without rows nobody can scroll to the top, which is what ends the pause.
  const isEmpty = rows.count === 0;
  useEffect(() => {
    if (isEmpty) {
      setPaused(false);
    }
  }, [isEmpty]);
  return { list, rows, tail: isLive ? tail : null, paused, setPaused };
}

/** A search with an upper-case letter minds upper case: that is several times as fast. */
function textCondition(searched: string): Condition {
  if (searched === "") {
    return { sql: "true", parameters: [] };
  }
  return { sql: isExact(searched) ? "contains(msg, ?)" : "contains(lower(msg), ?)", parameters: [searched] };
}
