/** Logs: how many over time, which values they have, the records themselves, their patterns; live when asked. */
import { Pause, Play, Rows3, ScrollText, TextSearch } from "lucide-react";
import { type ReactElement, type UIEvent, useEffect, useMemo, useState } from "react";

import { type SqlState, useQuerySql } from "../../api/use-query-sql.js";
import { serverNow } from "../../api/server-clock.js";
import { useScope } from "../../app/scope.js";
import { textOf, textsOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { Button, Input, Select } from "../../ui/controls.js";
import { FilterBar } from "../../ui/filter-bar.js";
import { type Condition, conditionOf, formatFilter } from "../../ui/filters.js";
import { formatCompact, formatCount, formatNumber } from "../../ui/format.js";
import { LevelLetter } from "../../ui/level.js";
import { Split } from "../../ui/panel.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../ui/states.js";
import { widerRange } from "../../ui/time-range.js";
import { useAttributeKeys, useSuggestions } from "../attribute-keys.js";
import { FacetsBeside, FacetsButton, useFacets } from "../facets-beside.js";
import { useFilters, useNames } from "../use-filters.js";
import { isExact, LogList } from "./log-list.js";
import { LogPanel } from "./log-panel.js";
import { LogPatterns } from "./log-patterns.js";
import { entryKey, logColumns, logEntry, logRows, logSelect, rowOf } from "./log-rows.js";
import { useVolume, type Volume, VolumeChart } from "./log-volume.js";
import css from "./logs-page.module.css";
import { type Tail, useTail } from "./use-tail.js";

const defaultFacets = ["level_name", "service_name"];
const noColumns: readonly string[] = [];
const limits = ["1000", "10000", "100000", "1000000"];

export default function LogsPage(): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const { audience, source } = useScope();
  const { range, resolved, setRange } = useTimeRange();
  const { filters, setFilters, toggle } = useFilters();
  const facets = useFacets(defaultFacets);
  const { narrow } = facets;
  const [columns, setColumns] = useNames("column", noColumns);
  const searched = (textOf(search["q"]) ?? "").replaceAll("\0", "");
  const isPatterns = textOf(search["view"]) === "patterns";
  const isLive = !isPatterns && textOf(search["live"]) === "1";
  const limit = limits.find((each) => each === textOf(search["limit"])) ?? "1000";
  const keys = useAttributeKeys("log_entries");
  const suggest = useSuggestions("log_entries", logColumns, keys);

  const text = useMemo(() => textCondition(searched), [searched]);
  const condition = useMemo(() => {
    const { sql, parameters } = conditionOf(filters, logColumns, audience);
    return { sql: `${sql} AND ${text.sql}`, parameters: [...parameters, ...text.parameters] };
  }, [filters, audience, text]);
  const volume = useVolume(condition, narrow ? 340 : 1000, isLive);
  const list = useQuerySql(`${logSelect} WHERE ${condition.sql} ORDER BY time DESC LIMIT ${limit}`, {
    parameters: condition.parameters,
    enabled: !isPatterns,
  });
  const [paused, setPaused] = useState(false);
  const known = useMemo(() => logRows([], list.result), [list.result]);
  const tail = useTail({ on: isLive, paused, condition, known, dataSource: source });
  const rows = useMemo(() => logRows(tail.entries, list.result), [tail.entries, list.result]);

  const chosen = textOf(search["entry"]);
  const selected = useMemo(() => (chosen === null ? null : rowOf(rows, chosen)), [rows, chosen]);
  const select = (row: number | null): void =>
    change({ entry: row === null ? undefined : entryKey(logEntry(rows, row)) }, { replace: true });
  const setLive = (on: boolean): void => {
    setPaused(false);
    change({ live: on ? "1" : undefined, ...(on && range.to !== "now" ? { from: "now-15m", to: "now" } : {}) });
  };
  const addColumn = (name: string): void =>
    setColumns(columns.includes(name) ? columns.filter((each) => each !== name) : [...columns, name]);

  return (
    <div className={css.page}>
      <div className={css.search}>
        <SearchField searched={searched} onSearch={(next) => change({ q: next === "" ? undefined : next })} />
        <div className={css.filters}>
          <FilterBar
            filters={filters}
            onChange={setFilters}
            suggest={suggest}
            placeholder={narrow ? "Filter: key=value" : "Filter: service_name=checkout, http.route~cart, !user.id"}
          />
        </div>
      </div>
      <VolumeChart volume={volume} narrow={narrow} />
      <div className={css.tools}>
        <FacetsButton state={facets} />
        <ViewButtons
          isPatterns={isPatterns}
          onRecords={() => change({ view: undefined })}
          onPatterns={() => change({ view: "patterns", live: undefined, entry: undefined })}
        />
        <Totals volume={volume} />
        {isPatterns ? null : (
          <>
            {narrow ? null : (
              <Select
                label="Most records"
                value={limit}
                options={limits.map((each) => ({ value: each, label: `Newest ${formatNumber(Number(each))}` }))}
                onChange={(next) => change({ limit: next === "1000" ? undefined : next })}
              />
            )}
            <Button aria-pressed={isLive} onClick={() => setLive(!isLive)}>
              {isLive ? <Pause /> : <Play />} Live
            </Button>
          </>
        )}
      </div>
      <LoadingLine running={list.running || volume.state.running} />
      <FacetsBeside
        state={facets}
        view="log_entries"
        columns={logColumns}
        filters={filters}
        condition={text}
        attributes={keys}
        onToggle={toggle}
      >
        {isPatterns ? (
          <LogPatterns
            condition={condition}
            total={volume.total}
            narrow={narrow}
            onPick={(pattern, exclude) => {
              const filter = formatFilter({ key: "pattern", operator: exclude ? "!=" : "=", value: pattern });
              change({
                filter: [...textsOf(search["filter"]), filter],
                view: exclude ? "patterns" : undefined,
              });
            }}
          />
        ) : (
          <Split
            panel={
              selected === null || selected >= rows.count ? null : (
                <LogPanel
                  entry={logEntry(rows, selected)}
                  onClose={() => change({ entry: undefined, panel: undefined }, { replace: true })}
                  onFilter={toggle}
                  onColumn={addColumn}
                />
              )
            }
          >
            <Records
              list={list}
              tail={isLive ? tail : null}
              paused={paused}
              onPaused={setPaused}
              count={rows.count}
              nothing={
                <Nothing
                  live={isLive}
                  hasFilters={filters.length > 0 || searched !== ""}
                  onClear={() => change({ filter: undefined, q: undefined })}
                  onWiden={() => setRange(widerRange(resolved, serverNow()))}
                />
              }
            >
              <LogList
                rows={rows}
                columns={columns}
                searched={searched}
                spanMs={resolved.endMs - resolved.beginMs}
                narrow={narrow}
                stale={list.stale}
                selected={selected}
                onSelect={select}
                onFilter={toggle}
              />
            </Records>
          </Split>
        )}
      </FacetsBeside>
    </div>
  );
}

/** The list of records, or what there is to say in its place. */
function Records({
  list,
  tail,
  paused,
  onPaused,
  count,
  nothing,
  children,
}: {
  readonly list: SqlState;
  /** Null: not live. */
  readonly tail: Tail | null;
  readonly paused: boolean;
  readonly onPaused: (paused: boolean) => void;
  readonly count: number;
  readonly nothing: ReactElement;
  readonly children: ReactElement;
}): ReactElement {
  const { result, error, running, run } = list;
  let body: ReactElement | null = null;
  if (result === null && error === null) {
    body = <Skeleton rows={12} />;
  } else if (count > 0) {
    const pauseBelowTop = (event: UIEvent): void => {
      if (tail !== null && event.target instanceof HTMLElement) {
        onPaused(event.target.scrollTop > 8);
      }
    };
    body = (
      <div className={css.table} onScrollCapture={pauseBelowTop}>
        {children}
      </div>
    );
  } else if (!running && error === null) {
    body = nothing;
  }
  return (
    <div className={css.main}>
      <div>
        {error === null ? null : (
          <div className={css.note}>
            <ErrorPart error={error} title="The logs could not be read" onRetry={run} />
          </div>
        )}
        {tail === null ? null : <TailLine tail={tail} paused={paused} />}
      </div>
      {body}
    </div>
  );
}

function ViewButtons(o: {
  readonly isPatterns: boolean;
  readonly onRecords: () => void;
  readonly onPatterns: () => void;
}): ReactElement {
  return (
    <div className={css.views} role="group" aria-label="View">
      <Button look="quiet" aria-pressed={!o.isPatterns} onClick={o.onRecords}>
        <Rows3 /> Records
      </Button>
      <Button look="quiet" aria-pressed={o.isPatterns} onClick={o.onPatterns}>
        <TextSearch /> Patterns
      </Button>
    </div>
  );
}

function SearchField({
  searched,
  onSearch,
}: {
  readonly searched: string;
  readonly onSearch: (text: string) => void;
}): ReactElement {
  const [text, setText] = useState(searched);
  useEffect(() => setText(searched), [searched]);
  return (
    <form
      className={css.text}
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(text);
      }}
    >
      <Input
        aria-label="Search in messages"
        placeholder="Search in messages"
        type="search"
        value={text}
        spellCheck={false}
        onChange={(event) => {
          setText(event.target.value);
          if (event.target.value === "") {
            onSearch("");
          }
        }}
        onBlur={() => text !== searched && onSearch(text)}
      />
    </form>
  );
}

function Totals({ volume }: { readonly volume: Volume }): ReactElement {
  const { error, run } = volume.state;
  if (error !== null) {
    return (
      <span className={css.totals}>
        Not counted: {error.message}
        <Button look="quiet" onClick={run}>
          Try again
        </Button>
      </span>
    );
  }
  return (
    <span className={css.totals} role="status">
      {volume.state.result === null ? "" : formatCount(volume.total, "record")}
      {volume.totals.map(({ level, count }) => (
        <span key={level} className={css.total} title={`${level}: ${formatNumber(count)}`}>
          <LevelLetter level={level === "unknown" ? null : level} /> {formatCompact(count)}
        </span>
      ))}
    </span>
  );
}

function TailLine({ tail, paused }: { readonly tail: Tail; readonly paused: boolean }): ReactElement {
  if (tail.error !== null) {
    return (
      <div className={css.note}>
        <ErrorPart error={tail.error} title="Live: no new records for now; it goes on trying" />
      </div>
    );
  }
  return (
    <p className={css.tail} role="status">
      <span className={css.dot} data-paused={paused} aria-hidden />
      {paused
        ? `Paused while you look further down. ${formatNumber(tail.waiting)} new; scroll to the top to see them.`
        : `Live. ${formatNumber(tail.entries.length)} new records since it began.`}
      {tail.isPartial ? " More came than it shows: filter to see all of them, or stop it and look at the list." : null}
    </p>
  );
}

function Nothing(o: {
  readonly live: boolean;
  readonly hasFilters: boolean;
  readonly onClear: () => void;
  readonly onWiden: () => void;
}): ReactElement {
  if (o.live) {
    return <EmptyState icon={<ScrollText />} title="Waiting for the first record" />;
  }
  return o.hasFilters ? (
    <EmptyState
      icon={<ScrollText />}
      title="No log record matches"
      actions={<Button onClick={o.onClear}>Take all filters away</Button>}
    >
      There may be records in this time range that the search and the filters leave out.
    </EmptyState>
  ) : (
    <EmptyState
      icon={<ScrollText />}
      title="No logs in this time range"
      actions={<Button onClick={o.onWiden}>Widen the time range</Button>}
    >
      Nothing that you may read was logged then.
    </EmptyState>
  );
}

/** A search with an upper-case letter minds upper case: that is several times as fast. */
function textCondition(searched: string): Condition {
  if (searched === "") {
    return { sql: "true", parameters: [] };
  }
  return { sql: isExact(searched) ? "contains(msg, ?)" : "contains(lower(msg), ?)", parameters: [searched] };
}
