/** Search for traces: by what their spans are, how long they took, whether they failed. */
import { useNavigate } from "@tanstack/react-router";
import { CircleAlert, GitCompareArrows, ListTree, X } from "lucide-react";
import { type ReactElement, useEffect, useMemo, useRef, useState } from "react";

import type { QueryResult } from "../../api/query.js";
import { useQuerySql } from "../../api/use-query-sql.js";
import { useScope } from "../../app/scope.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { Button, IconButton, Input, Select } from "../../ui/controls.js";
import { FilterBar } from "../../ui/filter-bar.js";
import { type Condition, conditionOf, type Filter, type FilterColumns } from "../../ui/filters.js";
import { formatMilliseconds, formatNumber } from "../../ui/format.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton, toast } from "../../ui/states.js";
import { absoluteRange, widerRange } from "../../ui/time-range.js";
import { useAttributeKeys, useSuggestions } from "../attribute-keys.js";
import { FacetsBeside, FacetsButton, useFacets } from "../facets-beside.js";
import { traceAddress } from "../trace-address.js";
import { useFilters } from "../use-filters.js";
import { chooseFirst, compareAddress, compareText, parseCompared } from "./compare/compare-address.js";
import { parseDurationMs } from "./durations.js";
import { TraceList } from "./trace-list.js";
import { TraceScatter } from "./trace-scatter.js";
import css from "./traces-page.module.css";

/** What filters of spans may name. */
const spanColumns: FilterColumns = {
  text: [
    "service_name",
    "name",
    "kind_name",
    "status",
    "status_message",
    "service_version",
    "service_instance_id",
    "host_name",
    "target",
    "span_id",
    "trace_id",
    "process_id",
  ],
  number: ["duration_ms"],
  attributes: "properties",
};
const defaultFacets = ["service_name", "name"];
const always: Condition = { sql: "true", parameters: [] };
const limit = 1000;

export default function TracesPage(): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const navigate = useNavigate();
  const { audience } = useScope();
  const { resolved, setRange } = useTimeRange();
  const { filters, setFilters, toggle } = useFilters();
  const facets = useFacets(defaultFacets);
  const { narrow } = facets;
  const min = textOf(search["min"]) ?? "";
  const max = textOf(search["max"]) ?? "";
  const onlyErrors = textOf(search["error"]) === "1";
  const slowest = textOf(search["order"]) === "slowest";
  const caller = textOf(search["caller"]);
  const callee = textOf(search["callee"]);
  const compare = textOf(search["compare"]);
  const first = parseCompared(compare);
  // Rows keep the handler that they were made with.
  const latest = useRef({ compare, first });
  latest.current = { compare, first };
  const keys = useAttributeKeys("spans");
  const suggest = useSuggestions("spans", spanColumns, keys);

  const { sql, parameters } = useMemo(
    () =>
      traceQuery({
        filters,
        audience,
        minMs: parseDurationMs(min),
        maxMs: parseDurationMs(max),
        onlyErrors,
        slowest,
        caller,
        callee,
      }),
    [filters, audience, min, max, onlyErrors, slowest, caller, callee],
  );
  const list = useQuerySql(sql, { parameters });
  const open = (result: QueryResult, row: number): void => {
    const id = result.columns[1]?.value(row);
    if (typeof id !== "string") {
      return;
    }
    const chosen = { id, at: new Date(result.columns[0]?.number(row) ?? 0).toISOString() };
    const { compare, first } = latest.current;
    if (compare === null) {
      void navigate(traceAddress(id, Date.parse(chosen.at)));
    } else if (first === null) {
      change({ compare: compareText(chosen) });
    } else if (first.id === id) {
      toast("That is the first trace", "Choose another to compare it with.");
    } else {
      void navigate(compareAddress(first, chosen));
    }
  };
  const hasFilters = filters.length > 0 || min !== "" || max !== "" || onlyErrors || caller !== null || callee !== null;
  const noFilters = {
    filter: undefined,
    min: undefined,
    max: undefined,
    error: undefined,
    caller: undefined,
    callee: undefined,
  };
  const { result } = list;

  return (
    <div className={css.page}>
      <div className={css.search}>
        <FilterBar
          filters={filters}
          onChange={setFilters}
          suggest={suggest}
          placeholder={narrow ? "Filter: key=value" : "Has a span with: service_name=payment, http.route~cart, name=…"}
        />
        <div className={css.fields}>
          <DurationField
            label="Least duration"
            placeholder="min"
            value={min}
            onChange={(next) => change({ min: next })}
          />
          <span aria-hidden>–</span>
          <DurationField
            label="Most duration"
            placeholder="max"
            value={max}
            onChange={(next) => change({ max: next })}
          />
          <Button aria-pressed={onlyErrors} onClick={() => change({ error: onlyErrors ? undefined : "1" })}>
            <CircleAlert /> Errors
          </Button>
        </div>
      </div>
      <TraceScatter
        result={result}
        range={resolved}
        height={narrow ? 110 : 150}
        stale={list.stale}
        onOpen={(row) => result !== null && open(result, row)}
        onSelect={({ range, minMs, maxMs }) => {
          const { from, to } = absoluteRange(range);
          change({
            from,
            to,
            ...(minMs === null ? {} : { min: formatMilliseconds(minMs).replaceAll(" ", "") }),
            ...(maxMs === null ? {} : { max: formatMilliseconds(maxMs).replaceAll(" ", "") }),
          });
        }}
      />
      <div className={css.tools}>
        <FacetsButton state={facets} />
        {caller === null && callee === null ? null : (
          <span className={css.call}>
            {caller ?? "anybody"} → {callee ?? "anybody"}
            <IconButton label="Also without this call" onClick={() => change({ caller: undefined, callee: undefined })}>
              <X />
            </IconButton>
          </span>
        )}
        <span className={css.said} role="status">
          {result === null || list.error !== null
            ? ""
            : `${result.rows >= limit ? `The ${slowest ? "slowest" : "newest"} ` : ""}${formatNumber(result.rows)} ${result.rows === 1 ? "trace" : "traces"}`}
        </span>
        <Button
          aria-pressed={compare !== null}
          onClick={() => change({ compare: compare === null ? chooseFirst : undefined })}
        >
          <GitCompareArrows /> Compare
        </Button>
        <Select
          label="Order"
          value={slowest ? "slowest" : ""}
          options={[
            { value: "", label: narrow ? "Newest" : "Newest first" },
            { value: "slowest", label: narrow ? "Slowest" : "Slowest first" },
          ]}
          onChange={(next) => change({ order: next === "" ? undefined : next })}
        />
        {compare === null ? null : (
          <div className={css.comparing}>
            <p role="status">
              {first === null
                ? "Choose the first of two traces."
                : `Choose a trace to compare with ${first.id.slice(0, 8)}…`}
            </p>
            <Button onClick={() => change({ compare: undefined })}>Cancel</Button>
          </div>
        )}
      </div>
      <LoadingLine running={list.running} />
      <FacetsBeside
        state={facets}
        view="spans"
        columns={spanColumns}
        filters={filters}
        condition={always}
        attributes={keys}
        onToggle={toggle}
      >
        <div className={css.main}>
          {list.error !== null ? (
            <div className={css.note}>
              <ErrorPart error={list.error} title="The traces could not be read" onRetry={list.run} />
            </div>
          ) : result === null || (result.rows === 0 && list.running) ? (
            <Skeleton rows={12} />
          ) : result.rows > 0 ? (
            <TraceList
              result={result}
              narrow={narrow}
              hasDate={resolved.endMs - resolved.beginMs > 86_400_000}
              stale={list.stale}
              onOpen={(row) => open(result, row)}
              onFilter={toggle}
            />
          ) : hasFilters ? (
            <EmptyState
              icon={<ListTree />}
              title="No trace matches"
              actions={<Button onClick={() => change(noFilters)}>Take all filters away</Button>}
            >
              All filters are about one and the same span of a trace.
            </EmptyState>
          ) : (
            <EmptyState
              icon={<ListTree />}
              title="No traces in this time range"
              actions={<Button onClick={() => setRange(widerRange(resolved, Date.now()))}>Widen the time range</Button>}
            >
              No trace that you may read began then.
            </EmptyState>
          )}
        </div>
      </FacetsBeside>
    </div>
  );
}

function traceQuery(o: {
  readonly filters: readonly Filter[];
  readonly audience: string | null;
  readonly minMs: number | null;
  readonly maxMs: number | null;
  readonly onlyErrors: boolean;
  readonly slowest: boolean;
  /** Only with a call between these. */
  readonly caller: string | null;
  readonly callee: string | null;
}): Condition {
  const parts: Condition[] = [];
  if (o.audience !== null) {
    parts.push({ sql: "audience = ?", parameters: [o.audience] });
  }
  if (o.minMs !== null) {
    parts.push({ sql: "duration_ms >= ?", parameters: [o.minMs] });
  }
  if (o.maxMs !== null) {
    parts.push({ sql: "duration_ms <= ?", parameters: [o.maxMs] });
  }
  if (o.onlyErrors) {
    parts.push({ sql: "is_error", parameters: [] });
  }
  if (o.filters.length > 0) {
    const { sql, parameters } = conditionOf(o.filters, spanColumns, o.audience);
    parts.push({ sql: `trace_id IN (SELECT trace_id FROM spans WHERE ${sql})`, parameters });
  }
  if (o.caller !== null || o.callee !== null) {
    const ends = [
      ["caller", o.caller],
      ["callee", o.callee],
    ].filter((end): end is [string, string] => end[1] !== null);
    const conditions = [...ends.map(([name]) => `${name} = ?`), ...(o.audience === null ? [] : ["audience = ?"])];
    parts.push({
      sql: `trace_id IN (SELECT trace_id FROM service_calls WHERE ${conditions.join(" AND ")})`,
      parameters: [...ends.map(([, name]) => name), ...(o.audience === null ? [] : [o.audience])],
    });
  }
  return {
    sql: `SELECT time, trace_id, root_service, root_name, duration_ms, spans::DOUBLE AS spans, errors::DOUBLE AS errors, services
FROM traces WHERE ${parts.length === 0 ? "true" : parts.map(({ sql }) => sql).join(" AND ")}
ORDER BY ${o.slowest ? "duration_ms" : "time"} DESC LIMIT ${limit}`,
    parameters: parts.flatMap(({ parameters }) => [...parameters]),
  };
}

/** Takes `250ms`, `1.5 s`, `2m`; a number alone is of milliseconds. */
function DurationField({
  label,
  placeholder,
  value,
  onChange,
}: {
  readonly label: string;
  readonly placeholder: string;
  readonly value: string;
  readonly onChange: (value: string | undefined) => void;
}): ReactElement {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const isWrong = text.trim() !== "" && parseDurationMs(text) === null;
  const commit = (): void => {
    if (!isWrong && text !== value) {
      onChange(text.trim() === "" ? undefined : text.trim());
    }
  };
  return (
    <Input
      className={css.duration}
      aria-label={label}
      aria-invalid={isWrong}
      placeholder={placeholder}
      title="For example 250ms, 1.5s, 2m"
      value={text}
      onChange={(event) => setText(event.target.value)}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key === "Enter") {
          commit();
        }
      }}
    />
  );
}
