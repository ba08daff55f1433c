/** Logs: how many over time, which values they have, the records themselves, their patterns; live when asked. */
import { Pause, Play, Rows3, TextSearch } from "lucide-react";
import { type ReactElement, useEffect, useState } from "react";

import { textsOf, useChangeSearch } from "../../app/search.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { Button, Input, Select } from "../../ui/controls/controls.js";
import { FilterBar } from "../../ui/filters/filter-bar.js";
import { formatFilter } from "../../ui/filters/filters.js";
import { formatCompact, formatCount, formatNumber } from "../../ui/format.js";
import { LevelLetter } from "../../ui/level.js";
import { LoadingLine } from "../../ui/states.js";
import { useAttributeKeys, useSuggestions } from "../attribute-keys.js";
import { FacetsBeside, FacetsButton, useFacets } from "../facets-beside.js";
import { useFilters } from "../use-filters.js";
import { LogPatterns } from "./log-patterns.js";
import { RecordsWithPanel } from "./log-records.js";
import { logColumns } from "./log-rows.js";
import { useVolume, type Volume, VolumeChart } from "./log-volume.js";
import css from "./logs-page.module.css";
import { limits, useLogRecords, useLogSearch } from "./use-log-search.js";

const defaultFacets = ["level_name", "service_name"];

export default function LogsPage(): ReactElement {
  const change = useChangeSearch();
  const { range } = useTimeRange();
  const { filters, changeFilters, toggle } = useFilters();
  const facets = useFacets(defaultFacets);
  const { narrow } = facets;
  const search = useLogSearch(filters);
  const { searched, isPatterns, isLive, limit, text, condition } = search;
  const volume = useVolume(condition, narrow ? 340 : 1000, isLive);
  const records = useLogRecords(search);
  const keys = useAttributeKeys("log_entries", logColumns);
  const suggest = useSuggestions("log_entries", logColumns, keys);
  const setLive = (on: boolean): void => {
    records.setPaused(false);
    change({ live: on ? "1" : undefined, ...(on && range.to !== "now" ? { from: "now-15m", to: "now" } : {}) });
  };
  const pickPattern = (pattern: string, exclude: boolean): void => {
    const filter = formatFilter({ key: "pattern", operator: exclude ? "!=" : "=", value: pattern });
    change((before) => ({
      filter: [...textsOf(before["filter"]), filter],
      view: exclude ? "patterns" : undefined,
    }));
  };

  return (
    <div className={css.page}>
      <div className={css.search}>
        <SearchField searched={searched} onSearch={(next) => change({ q: next === "" ? undefined : next })} />
        <div className={css.filters}>
          <FilterBar
            filters={filters}
            onChange={changeFilters}
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
        {isPatterns || narrow ? null : (
          <Select
            label="Most records"
            value={limit}
            options={limits.map((each) => ({ value: each, label: `Newest ${formatNumber(Number(each))}` }))}
            onChange={(next) => change({ limit: next === "1000" ? undefined : next })}
          />
        )}
        {isPatterns ? null : (
          <Button aria-pressed={isLive} onClick={() => setLive(!isLive)}>
            {isLive ? <Pause /> : <Play />} Live
          </Button>
        )}
      </div>
      <LoadingLine running={records.list.running || volume.state.running} />
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
          <LogPatterns condition={condition} total={volume.total} narrow={narrow} onPick={pickPattern} />
        ) : (
          <RecordsWithPanel
            records={records}
            searched={searched}
            hasFilters={filters.length > 0 || searched !== ""}
            narrow={narrow}
            onFilter={toggle}
          />
        )}
      </FacetsBeside>
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
