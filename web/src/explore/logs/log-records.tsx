/** The records, with the one that is chosen at their side; or what there is to say in their place. */
import { ScrollText } from "lucide-react";
import { type ReactElement, type UIEvent, useMemo } from "react";

import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { formatNumber } from "../../ui/format.js";
import { Split } from "../../ui/panel.js";
import { EmptyState, ErrorPart, Skeleton } from "../../ui/states.js";
import { ClearOrWiden } from "../clear-or-widen.js";
import { useNames } from "../use-filters.js";
import { LogList } from "./log-list.js";
import { LogPanel } from "./log-panel.js";
import { entryKey, logEntry, rowOf } from "./log-rows.js";
import css from "./logs-page.module.css";
import type { LogRecords } from "./use-log-search.js";
import type { Tail } from "./use-tail.js";

const noColumns: readonly string[] = [];

export function RecordsWithPanel(o: {
  readonly records: LogRecords;
  readonly searched: string;
  readonly hasFilters: boolean;
  readonly narrow: boolean;
  readonly onFilter: (key: string, value: string | null, exclude: boolean) => void;
}): ReactElement {
  const { records, onFilter } = o;
  const { rows, list } = records;
  const change = useChangeSearch();
  const { resolved } = useTimeRange();
  const [columns, changeColumns] = useNames("column", noColumns);
  const chosen = textOf(useSearchParameters()["entry"]);
  const selected = useMemo(() => (chosen === null ? null : rowOf(rows, chosen)), [rows, chosen]);
  const toggleColumn = (name: string): void =>
    changeColumns((before) => (before.includes(name) ? before.filter((each) => each !== name) : [...before, name]));
  return (
    <Split
      panel={
        selected === null || selected >= rows.count ? null : (
          <LogPanel
            entry={logEntry(rows, selected)}
            onClose={() => change({ entry: undefined, panel: undefined }, { replace: true })}
            onFilter={onFilter}
            onColumn={toggleColumn}
          />
        )
      }
    >
      <Records records={records} hasFilters={o.hasFilters}>
        <LogList
          rows={rows}
          columns={columns}
          searched={o.searched}
          spanMs={resolved.endMs - resolved.beginMs}
          narrow={o.narrow}
          stale={list.stale}
          selected={selected}
          onSelect={(row) =>
            change({ entry: row === null ? undefined : entryKey(logEntry(rows, row)) }, { replace: true })
          }
          onFilter={onFilter}
        />
      </Records>
    </Split>
  );
}

/** The list of records, or what there is to say in its place. */
function Records({
  records: { list, rows, tail, paused, setPaused },
  hasFilters,
  children,
}: {
  readonly records: LogRecords;
  readonly hasFilters: boolean;
  readonly children: ReactElement;
}): ReactElement {
  const { result, error, running, run } = list;
  const pauseBelowTop = (event: UIEvent): void => {
    if (tail !== null && event.target instanceof HTMLElement) {
      setPaused(event.target.scrollTop > 8);
    }
  };
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
      {result === null && error === null ? (
        <Skeleton rows={12} />
      ) : rows.count > 0 ? (
        <div className={css.table} onScrollCapture={pauseBelowTop}>
          {children}
        </div>
      ) : running || error !== null ? null : (
        <NoRecords isLive={tail !== null} hasFilters={hasFilters} />
      )}
    </div>
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

function NoRecords(o: { readonly isLive: boolean; readonly hasFilters: boolean }): ReactElement {
  const change = useChangeSearch();
  return o.isLive ? (
    <EmptyState icon={<ScrollText />} title="Waiting for the first record" />
  ) : (
    <EmptyState
      icon={<ScrollText />}
      title={o.hasFilters ? "No log record matches" : "No logs in this time range"}
      actions={<ClearOrWiden hasFilters={o.hasFilters} onClear={() => change({ filter: undefined, q: undefined })} />}
    >
      {o.hasFilters
        ? "There may be records in this time range that the search and the filters leave out."
        : "Nothing that you may read was logged then."}
    </EmptyState>
  );
}
