/** Search for traces: by what their spans are, how long they took, whether they failed. */
import { useNavigate } from "@tanstack/react-router";
import { CircleAlert, GitCompareArrows, ListTree, X } from "lucide-react";
import { type ReactElement, useEffect, useMemo, useRef, useState } from "react";

import type { QueryResult } from "../../../api/query.js";
import { useQuerySql } from "../../../api/use-query-sql.js";
import { useScope } from "../../../app/scope.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../../app/search.js";
import { useTimeRange } from "../../../app/time-range-context.js";
import { Button, IconButton, Input, Select } from "../../../ui/controls/controls.js";
import { FilterBar } from "../../../ui/filters/filter-bar.js";
import type { Condition, Filter } from "../../../ui/filters/filters.js";
import { formatCount, formatMilliseconds } from "../../../ui/format.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../../ui/states.js";
import { toast } from "../../../ui/toast.js";
import { absoluteRange } from "../../../ui/time-range.js";
import { useAttributeKeys, useSuggestions } from "../../attribute-keys.js";
import { ClearOrWiden } from "../../clear-or-widen.js";
import { FacetsBeside, FacetsButton, useFacets } from "../../facets-beside.js";
import { traceAddress } from "../../trace-address.js";
import { useFilters } from "../../use-filters.js";
import { chooseFirst, compareAddress, type Compared, compareText, parseCompared } from "../compare/compare-address.js";
import { parseDurationMs } from "./durations.js";
import { TraceList } from "./trace-list.js";
import { mostTraces, spanColumns, traceQuery } from "./trace-query.js";
import { TraceScatter } from "./trace-scatter.js";
import css from "./traces-page.module.css";

const defaultFacets = ["service_name", "name"];
const always: Condition = { sql: "true", parameters: [] };
const noFilters = {
  filter: undefined,
  min: undefined,
  max: undefined,
  error: undefined,
  caller: undefined,
  callee: undefined,
};

export default function TracesPage(): ReactElement {
  const change = useChangeSearch();
  const { resolved } = useTimeRange();
  const { filters, changeFilters, toggle } = useFilters();
  const facets = useFacets(defaultFacets);
  const { narrow } = facets;
  const search = useTraceSearch(filters);
  const { min, max, onlyErrors, caller, callee, list } = search;
  const { result } = list;
  const compare = textOf(useSearchParameters()["compare"]);
  const first = parseCompared(compare);
  const open = useOpening(compare, first);
  const keys = useAttributeKeys("spans", spanColumns);
  const suggest = useSuggestions("spans", spanColumns, keys);
  const hasFilters = filters.length > 0 || min !== "" || max !== "" || onlyErrors || caller !== null || callee !== null;

  return (
    <div className={css.page}>
      <div className={css.search}>
        <FilterBar
          filters={filters}
          onChange={changeFilters}
          suggest={suggest}
          placeholder={narrow ? "Filter: key=value" : "Has a span with: service_name=payment, http.route~cart, name=…"}
        />
        <DurationsAndErrors search={search} />
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
        <CalledBetween
          caller={caller}
          callee={callee}
          onClear={() => change({ caller: undefined, callee: undefined })}
        />
        <FoundAndOrder search={search} narrow={narrow} isComparing={compare !== null} />
        {compare === null ? null : <Comparing first={first} />}
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
          {list.error === null ? null : (
            <div className={css.note}>
              <ErrorPart error={list.error} title="The traces could not be read" onRetry={list.run} />
            </div>
          )}
          {result !== null && result.rows > 0 ? (
            <TraceList
              result={result}
              narrow={narrow}
              hasDate={resolved.endMs - resolved.beginMs > 86_400_000}
              stale={list.stale}
              onOpen={(row) => open(result, row)}
              onFilter={toggle}
            />
          ) : list.error !== null ? null : result === null || list.running ? (
            <Skeleton rows={12} />
          ) : (
            <NoTraces hasFilters={hasFilters} />
          )}
        </div>
      </FacetsBeside>
    </div>
  );
}

type TraceSearch = ReturnType<typeof useTraceSearch>;

/** What the address asks for, and the traces that were found. */
function useTraceSearch(filters: readonly Filter[]) {
  const search = useSearchParameters();
  const { audience } = useScope();
  const min = textOf(search["min"]) ?? "";
  const max = textOf(search["max"]) ?? "";
  const onlyErrors = textOf(search["error"]) === "1";
  const slowest = textOf(search["order"]) === "slowest";
  const caller = textOf(search["caller"]);
  const callee = textOf(search["callee"]);
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
  return { min, max, onlyErrors, slowest, caller, callee, list: useQuerySql(sql, { parameters }) };
}

/** Opens the trace of a row, or chooses it where two are compared. */
function useOpening(compare: string | null, first: Compared | null): (result: QueryResult, row: number) => void {
  const change = useChangeSearch();
  const navigate = useNavigate();
  // Rows keep the handler that they were made with.
  const latest = useRef({ compare, first });
  latest.current = { compare, first };
  return (result, row) => {
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
}

function DurationsAndErrors({ search }: { readonly search: TraceSearch }): ReactElement {
  const change = useChangeSearch();
  const { min, max, onlyErrors } = search;
  return (
    <div className={css.fields}>
      <DurationField label="Least duration" placeholder="min" value={min} onChange={(next) => change({ min: next })} />
      <span aria-hidden>–</span>
      <DurationField label="Most duration" placeholder="max" value={max} onChange={(next) => change({ max: next })} />
      <Button aria-pressed={onlyErrors} onClick={() => change({ error: onlyErrors ? undefined : "1" })}>
        <CircleAlert /> Errors
      </Button>
    </div>
  );
}

function FoundAndOrder(o: {
  readonly search: TraceSearch;
  readonly narrow: boolean;
  readonly isComparing: boolean;
}): ReactElement {
  const change = useChangeSearch();
  const { list, slowest } = o.search;
  return (
    <>
      <span className={css.said} role="status">
        {list.result === null || list.error !== null ? "" : foundWords(list.result.rows, slowest)}
      </span>
      <Button aria-pressed={o.isComparing} onClick={() => change({ compare: o.isComparing ? undefined : chooseFirst })}>
        <GitCompareArrows /> Compare
      </Button>
      <Select
        label="Order"
        value={slowest ? "slowest" : ""}
        options={[
          { value: "", label: o.narrow ? "Newest" : "Newest first" },
          { value: "slowest", label: o.narrow ? "Slowest" : "Slowest first" },
        ]}
        onChange={(next) => change({ order: next === "" ? undefined : next })}
      />
    </>
  );
}

/** @param first of two traces; null: not chosen yet */
function Comparing({ first }: { readonly first: Compared | null }): ReactElement {
  const change = useChangeSearch();
  return (
    <div className={css.comparing}>
      <p role="status">
        {first === null ? "Choose the first of two traces." : `Choose a trace to compare with ${first.id.slice(0, 8)}…`}
      </p>
      <Button onClick={() => change({ compare: undefined })}>Cancel</Button>
    </div>
  );
}

/** The call that traces have to have, if any. */
function CalledBetween(o: {
  readonly caller: string | null;
  readonly callee: string | null;
  readonly onClear: () => void;
}): ReactElement | null {
  return o.caller === null && o.callee === null ? null : (
    <span className={css.call}>
      {o.caller ?? "anybody"} → {o.callee ?? "anybody"}
      <IconButton label="Also without this call" onClick={o.onClear}>
        <X />
      </IconButton>
    </span>
  );
}

function foundWords(rows: number, slowest: boolean): string {
  const part = rows >= mostTraces ? `The ${slowest ? "slowest" : "newest"} ` : "";
  return `${part}${formatCount(rows, "trace")}`;
}

function NoTraces({ hasFilters }: { readonly hasFilters: boolean }): ReactElement {
  const change = useChangeSearch();
  return (
    <EmptyState
      icon={<ListTree />}
      title={hasFilters ? "No trace matches" : "No traces in this time range"}
      actions={<ClearOrWiden hasFilters={hasFilters} onClear={() => change(noFilters)} />}
    >
      {hasFilters
        ? "All filters are about one and the same span of a trace."
        : "No trace that you may read began then."}
    </EmptyState>
  );
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
