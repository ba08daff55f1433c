/** What the service knows at a glance: how much came in, from whom, how fast and what failed. */
import { Link } from "@tanstack/react-router";
import { Rocket } from "lucide-react";
import { type ReactElement, type ReactNode, useMemo } from "react";

import { cellsOf } from "../api/cells.js";
import { type SqlState, useQuerySql } from "../api/use-query-sql.js";
import { hasPage, servicePath } from "../app/links.js";
import { useScope } from "../app/scope.js";
import { useTimeRange } from "../app/time-range-context.js";
import { type Buckets, bucketsOf, inEveryBucket, perSecond } from "../ui/chart/buckets.js";
import { type ChartData, toSeries } from "../ui/chart/series.js";
import { TimeChart } from "../ui/chart/time-chart.js";
import type { Unit } from "../ui/chart/units.js";
import { levelColour, seriesColour } from "../ui/colours.js";
import { formatCompact, formatMilliseconds, formatNumber, formatPercent, formatTime, nothing } from "../ui/format.js";
import { LevelBadge } from "../ui/level.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../ui/states.js";
import { DataTable } from "../ui/table/data-table.js";
import { resultColumns, type TableColumn } from "../ui/table/table-columns.js";
import { absoluteRange } from "../ui/time-range.js";
import css from "./overview-page.module.css";

/** Charts are about half as wide as the window. */
const chartPixels = (): number => Math.max(300, window.innerWidth / 2 - 140);

export default function OverviewPage(): ReactElement {
  const { resolved } = useTimeRange();
  const { audience } = useScope();
  const pixels = chartPixels();
  const buckets = useMemo(() => bucketsOf(resolved, pixels), [resolved, pixels]);
  const { seconds } = buckets;
  const where = audience === null ? "" : "WHERE audience = ?";
  const and = audience === null ? "" : "AND audience = ?";
  const parameters = audience === null ? [] : [audience];
  const logs = useQuerySql(
    `SELECT date_bin(INTERVAL ${seconds} SECOND, time) AS time, coalesce(level_name, 'none') AS level, count(*) AS n
FROM log_entries ${where} GROUP BY ALL ORDER BY min(coalesce(level, 9)), time`,
    { parameters },
  );
  const spans = useQuerySql(
    `SELECT date_bin(INTERVAL ${seconds} SECOND, time) AS time, count(*) AS rate,
  avg(is_error::INTEGER) AS errors, quantile_cont(duration_ms, 0.95) AS p95
FROM spans ${where} GROUP BY ALL ORDER BY time`,
    { parameters },
  );
  const services = useQuerySql(
    `WITH l AS (SELECT service_name, count(*) AS logs, count(*) FILTER (level <= 2) AS log_errors
  FROM log_entries ${where} GROUP BY ALL),
s AS (SELECT service_name, count(*) AS spans, avg(is_error::INTEGER) AS errors, quantile_cont(duration_ms, 0.95) AS p95
  FROM spans ${where} GROUP BY ALL)
SELECT coalesce(service_name, '') AS service, logs, log_errors, spans, errors, p95
FROM l FULL JOIN s USING (service_name) ORDER BY coalesce(spans, 0) + coalesce(logs, 0) DESC LIMIT 200`,
    { parameters: [...parameters, ...parameters] },
  );
  const failures = useQuerySql(
    `SELECT time, level_name, service_name, msg FROM log_entries WHERE level <= 2 ${and} ORDER BY time DESC LIMIT 100`,
    { parameters },
  );
  const running = [logs, spans, services, failures].some((query) => query.running);
  if (services.result?.rows === 0 && services.error === null && (services.summary !== null || services.stale)) {
    return (
      <EmptyState
        stale={services.stale}
        icon={<Rocket />}
        title="Nothing in this time range"
        actions={hasPage("/start") ? <Link to="/start">Send your first data</Link> : null}
      >
        Nothing that you may read has a time between the two ends. Choose a longer range, or send something.
      </EmptyState>
    );
  }
  return (
    <div className={css.page}>
      <LoadingLine running={running} />
      <Tiles services={services} />
      <div className={css.charts}>
        <LogChart query={logs} />
        <SpanChart query={spans} buckets={buckets} column="rate" title="Spans per second" unit="per-second" />
        <SpanChart
          query={spans}
          buckets={buckets}
          column="p95"
          title="Duration of spans, 95th percentile"
          unit="milliseconds"
        />
        <SpanChart query={spans} buckets={buckets} column="errors" title="Spans that failed" unit="fraction" />
      </div>
      <div className={css.tables}>
        <Part title="Services" query={services} height={272} {...(hasPage("/services") ? { more: "/services" } : {})}>
          <ServiceTable query={services} />
        </Part>
        <Part title="Latest errors" query={failures} height={272} {...(hasPage("/logs") ? { more: "/logs" } : {})}>
          <FailureTable query={failures} />
        </Part>
      </div>
    </div>
  );
}

/** A part of the page with its own error and its own emptiness. */
function Part({
  title,
  query,
  more,
  height,
  children,
}: {
  readonly title: string;
  /** Pixels that are kept for it while nothing is there. */
  readonly height: number;
  readonly query: SqlState;
  /** A page that shows it in full. */
  readonly more?: string;
  readonly children: ReactNode;
}): ReactElement {
  const { error, result, run } = query;
  return (
    <section className={css.part} aria-label={title}>
      <div className={css.partHead}>
        <h2>{title}</h2>
        {more === undefined ? null : <Link to={more}>All</Link>}
      </div>
      <div style={{ minHeight: height }}>
        {error === null ? (
          result === null ? (
            <Skeleton rows={Math.round(height / 40)} />
          ) : (
            children
          )
        ) : (
          <ErrorPart error={error} onRetry={run} />
        )}
      </div>
    </section>
  );
}

function Tiles({ services }: { readonly services: SqlState }): ReactElement {
  const sums = useMemo(() => {
    const { columns = [], rows = 0 } = services.result ?? {};
    const sum = (name: string): number => {
      const column = columns.find((each) => each.name === name);
      let total = 0;
      for (let row = 0; row < rows; row++) {
        total += column?.number(row) || 0;
      }
      return total;
    };
    return { services: rows, logs: sum("logs"), errors: sum("log_errors"), spans: sum("spans") };
  }, [services.result]);
  const tile = (title: string, value: number, bad = false): ReactElement => (
    <div className={css.tile} data-bad={bad && value > 0}>
      <dt>{title}</dt>
      <dd title={formatNumber(value)}>{services.result === null ? nothing : formatCompact(value)}</dd>
    </div>
  );
  return (
    <dl className={css.tiles}>
      {tile("Services", sums.services)}
      {tile("Log entries", sums.logs)}
      {tile("Errors logged", sums.errors, true)}
      {tile("Spans", sums.spans)}
    </dl>
  );
}

const noData: ChartData = { times: new Float64Array(0), series: [] };

function LogChart({ query }: { readonly query: SqlState }): ReactElement {
  const { resolved, setRange } = useTimeRange();
  const data = useMemo(() => {
    if (query.result === null) {
      return noData;
    }
    const { times, series } = toSeries(query.result, { time: "time", value: "n", name: "level", fill: 0 });
    return { times, series: series.map((each) => ({ ...each, colour: levelColour(each.name) })) };
  }, [query.result]);
  return (
    <Part title="Log entries by level" query={query} height={150} {...(hasPage("/logs") ? { more: "/logs" } : {})}>
      <TimeChart
        title="Log entries by level"
        data={data}
        range={resolved}
        kind="bars"
        height={150}
        legend={false}
        onRange={(drawn) => setRange(absoluteRange(drawn))}
        stale={query.stale}
      />
    </Part>
  );
}

function SpanChart({
  query,
  buckets,
  column,
  title,
  unit,
}: {
  readonly query: SqlState;
  readonly buckets: Buckets;
  readonly column: "rate" | "p95" | "errors";
  readonly title: string;
  readonly unit: Unit;
}): ReactElement {
  const { resolved, setRange } = useTimeRange();
  const data = useMemo(() => {
    if (query.result === null) {
      return noData;
    }
    const found = toSeries(query.result, { time: "time", value: column, name: null });
    const colour = column === "errors" ? "var(--level-error)" : "var(--series-0)";
    const coloured = { ...found, series: found.series.map((each) => ({ ...each, colour })) };
    const filled = inEveryBucket(coloured, buckets, column === "p95" ? Number.NaN : 0);
    return column === "rate" ? perSecond(filled, buckets) : filled;
  }, [query.result, buckets, column]);
  return (
    <Part title={title} query={query} height={150} {...(hasPage("/traces") ? { more: "/traces" } : {})}>
      <TimeChart
        title={title}
        data={data}
        range={resolved}
        unit={unit}
        height={150}
        onRange={(drawn) => setRange(absoluteRange(drawn))}
        stale={query.stale}
      />
    </Part>
  );
}

function ServiceTable({ query }: { readonly query: SqlState }): ReactElement | null {
  const { result } = query;
  const columns = useMemo(() => (result === null ? [] : serviceColumns(result)), [result]);
  return result === null ? null : (
    <div className={css.table}>
      <DataTable label="Services" columns={columns} rows={result.rows} version={result} stale={query.stale} />
    </div>
  );
}

function serviceColumns(result: NonNullable<SqlState["result"]>): readonly TableColumn[] {
  const cells = cellsOf(result);
  const number = (id: string, title: string, format: (value: number) => string, width: number): TableColumn => {
    const value = (row: number): number | null => {
      const found = cells.number(id, row);
      return Number.isNaN(found) ? null : found;
    };
    const text = (row: number): string | null => {
      const found = value(row);
      return found === null ? null : format(found);
    };
    return { id, title, width, align: "right", mono: true, text, sortBy: value };
  };
  const nameOf = (row: number): string => cells.text("service", row);
  return [
    {
      id: "service",
      title: "Service",
      width: 152,
      text: (row) => (nameOf(row) === "" ? null : nameOf(row)),
      sortBy: nameOf,
      cell: (row) => <ServiceName name={nameOf(row)} />,
    },
    number("spans", "Spans", formatCompact, 64),
    number("errors", "Failed", formatPercent, 68),
    number("p95", "p95", formatMilliseconds, 76),
    number("logs", "Logs", formatCompact, 58),
    number("log_errors", "Errors", formatCompact, 62),
  ];
}

function ServiceName({ name }: { readonly name: string }): ReactElement {
  const shown = name === "" ? "no name" : name;
  return (
    <span className={css.service}>
      <span className={css.dot} style={{ background: seriesColour(name) }} />
      {hasPage("/services/$name") && name !== "" ? <Link to={servicePath(name)}>{shown}</Link> : shown}
    </span>
  );
}

/** A time of today, or of another short range, without its date. */
function clockOf(value: unknown): string | null {
  return typeof value === "bigint" ? formatTime(value, { date: false }) : null;
}

function FailureTable({ query }: { readonly query: SqlState }): ReactElement | null {
  const { result } = query;
  const { beginMs, endMs } = useTimeRange().resolved;
  const withDate = endMs - beginMs > 86_400_000;
  const columns = useMemo(() => {
    if (result === null) {
      return [];
    }
    const { text, value } = cellsOf(result);
    return resultColumns(result, {
      time: { title: "Time", ...(withDate ? {} : { width: 118, text: (row) => clockOf(value("time", row)) }) },
      level_name: { title: "Level", width: 76, cell: (row) => <LevelBadge level={text("level_name", row)} /> },
      service_name: { title: "Service", width: 120 },
      msg: { title: "Message", keep: true },
    });
  }, [result, withDate]);
  if (result === null) {
    return null;
  }
  return result.rows === 0 ? (
    <EmptyState title="No errors" stale={query.stale}>
      Nothing logged an error in this time range.
    </EmptyState>
  ) : (
    <div className={css.table}>
      <DataTable label="Latest errors" columns={columns} rows={result.rows} version={result} stale={query.stale} />
    </div>
  );
}
