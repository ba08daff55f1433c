/** Which attributes the rows of a view have, and completion of filters by them. */
import { useCallback, useMemo } from "react";

import { runQuery } from "../api/query.js";
import { useQuerySql } from "../api/use-query-sql.js";
import { useScope } from "../app/scope.js";
import { useTimeRange } from "../app/time-range-context.js";
import {
  attributeKey,
  attributeOf,
  conditionOf,
  expressionOf,
  type FilterColumns,
  formatFilter,
  parseFilter,
} from "../ui/filters/filters.js";

export type ExploredView = "log_entries" | "spans";

/** Keys of the attributes of the rows in the page's time range, the most frequent first; empty until they are known. */
export function useAttributeKeys(view: ExploredView, columns: FilterColumns): readonly string[] {
  const { audience } = useScope();
  const { result } = useQuerySql(
    `SELECT key FROM attribute_keys()
WHERE "view" = ? AND (? IS NULL OR audience = ?) GROUP BY key ORDER BY sum("rows")::DOUBLE DESC, key LIMIT 500`,
    { parameters: [view, audience, audience] },
  );
  return useMemo(() => {
    const [key] = result?.columns ?? [];
    return Array.from({ length: result?.rows ?? 0 }, (_, row) => attributeKey(textOfValue(key?.value(row)), columns));
  }, [result, columns]);
}

/** For FilterBar: keys that hold what was typed, and behind an operator the most frequent values. */
export function useSuggestions(
  view: ExploredView,
  columns: FilterColumns,
  keys: readonly string[],
): (text: string, signal: AbortSignal) => Promise<readonly string[]> {
  const { resolved } = useTimeRange();
  const { audience, source } = useScope();
  const suggest = async (text: string, signal: AbortSignal): Promise<readonly string[]> => {
    const filter = parseFilter(text);
    if (filter === null || filter.operator === "exists" || filter.operator === "missing") {
      const typed = filter?.key.toLowerCase() ?? "";
      const names = [...columns.text, ...columns.number, ...keys];
      const found = names.filter((name) => name !== "" && name.toLowerCase().includes(typed));
      const begins = (name: string): number => (name.toLowerCase().startsWith(typed) ? 0 : 1);
      const first = found.toSorted((a, b) => begins(a) - begins(b)).slice(0, 12);
      return first.map((key) => formatFilter({ key, operator: "exists", value: "" }));
    }
    if (columns.number.includes(filter.key) || expressionOf(filter.key, columns) !== undefined) {
      return [];
    }
    const isColumn = columns.text.includes(filter.key);
    const left = isColumn ? `"${filter.key}"` : `attr(${columns.attributes ?? "properties"}, ?)`;
    const attribute = isColumn ? [] : [attributeOf(filter.key, columns)];
    const scope = conditionOf([], columns, audience);
    const result = await runQuery(
      {
        sql: `SELECT ${left} AS found, count(*) AS entries FROM ${view}
WHERE ${scope.sql} AND contains(lower(${left}), lower(?)) GROUP BY 1 ORDER BY entries DESC, 1 LIMIT 12`,
        parameters: [...attribute, ...scope.parameters, ...attribute, filter.value],
        beginMs: resolved.beginMs,
        endMs: resolved.endMs,
        dataSource: source ?? undefined,
      },
      {},
      signal,
    );
    return Array.from({ length: result.rows }, (_, row) =>
      formatFilter({ ...filter, value: textOfValue(result.columns[0]?.value(row)) }),
    );
  };
  return useCallback(suggest, [view, columns, keys, resolved.beginMs, resolved.endMs, audience, source]);
}

const textOfValue = (value: unknown): string => (typeof value === "string" ? value : "");
