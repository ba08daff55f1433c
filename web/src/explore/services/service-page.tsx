/** One service: rate, errors and duration of its requests over time, its operations, exceptions, callers and callees. */
import { useNavigate, useParams } from "@tanstack/react-router";
import { ArrowLeft, Cpu, Logs, Network, Waypoints, X } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { cellsOf } from "../../api/cells.js";
import { type SqlState, useQuerySql } from "../../api/use-query-sql.js";
import { logsAddress, tracesAddress } from "../addresses.js";
import { serviceOfPath, servicePath } from "../../app/links.js";
import { useScope } from "../../app/scope.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { useTimeRange } from "../../app/time-range-context.js";
import { bucketsOf } from "../../ui/chart/buckets.js";
import { Button, IconButton } from "../../ui/controls/controls.js";
import { LinkButton } from "../../ui/controls/link-button.js";
import { formatMilliseconds, formatNumber, formatPercent, formatRate } from "../../ui/format.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../ui/states.js";
import { CallsTable } from "./calls-table.js";
import { ExceptionsTable, exceptionsSql } from "./exceptions-table.js";
import { OperationsTable, operationsSql } from "./operations-table.js";
import { RedCharts } from "./red-charts.js";
import { overTimeSql } from "./red-series.js";
import { audienceCondition, callsSql, isRequest, readCalls, serviceCondition, unnamed } from "./service-data.js";
import css from "./service-page.module.css";
import { severityOf } from "./error-share.js";

export default function ServicePage(): ReactElement {
  const params: Readonly<Record<string, string | undefined>> = useParams({ strict: false });
  const name = params["name"] === undefined ? unnamed : serviceOfPath(params["name"]);
  // Another service begins anew: figures of the one before would be below its name.
  return <Service key={name} name={name} />;
}

function Service({ name }: { readonly name: string }): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const { resolved } = useTimeRange();
  const { audience } = useScope();
  const operation = textOf(search["operation"]);
  const buckets = useMemo(() => bucketsOf(resolved, 320), [resolved]);
  const seconds = (resolved.endMs - resolved.beginMs) / 1000;

  const own = serviceCondition(name, audience);
  const whose = audienceCondition(audience);
  const chosen =
    operation === null ? own : { sql: `${own.sql} AND name = ?`, parameters: [...own.parameters, operation] };
  // With an operation of its own choice the page shows all its spans, also those that no other service asked for.
  const charted = operation === null ? `${isRequest} AND ${chosen.sql}` : chosen.sql;
  const overTime = useQuerySql(overTimeSql(buckets, charted), { parameters: chosen.parameters });
  const totals = useQuerySql(totalsSql(charted), { parameters: chosen.parameters });
  const operations = useQuerySql(operationsSql(own.sql), { parameters: own.parameters });
  const exceptions = useQuerySql(exceptionsSql(own.sql), { parameters: own.parameters });
  const callers = useQuerySql(callsSql(`callee = ? AND caller <> callee AND ${whose.sql}`), {
    parameters: [name, ...whose.parameters],
  });
  const callees = useQuerySql(callsSql(`caller = ? AND caller <> callee AND ${whose.sql}`), {
    parameters: [name, ...whose.parameters],
  });
  const all = [overTime, totals, operations, exceptions, callers, callees];
  const hasSpans = totals.result !== null && cellsOf(totals.result).number("requests", 0) > 0;
  const filter = { service_name: name === unnamed ? null : name };

  return (
    <div className={css.page}>
      <header className={css.head}>
        <LinkButton to="/services" look="quiet" aria-label="All services">
          <ArrowLeft aria-hidden />
        </LinkButton>
        <h2 title={name}>{name}</h2>
        {operation === null ? null : (
          <span className={css.operation}>
            <span title={operation}>{operation}</span>
            <IconButton label="Show all operations" onClick={() => change({ operation: undefined })}>
              <X />
            </IconButton>
          </span>
        )}
        <nav className={css.links} aria-label={`More of ${name}`}>
          <LinkButton {...tracesAddress(operation === null ? filter : { ...filter, name: operation })}>
            <Waypoints aria-hidden /> Traces
          </LinkButton>
          <LinkButton {...logsAddress(filter)}>
            <Logs aria-hidden /> Logs
          </LinkButton>
          <LinkButton to="/processes" search={{ q: name }}>
            <Cpu aria-hidden /> Processes
          </LinkButton>
        </nav>
      </header>
      <LoadingLine running={all.some(({ running }) => running)} />
      <div className={css.body}>
        <Problem queries={all} />
        {totals.result === null ? (
          totals.error === null ? (
            <Skeleton rows={10} />
          ) : null
        ) : !hasSpans && totals.error !== null ? null : !hasSpans ? (
          <EmptyState
            stale={totals.stale}
            icon={<Network />}
            title={operation === null ? "No requests in this time range" : "No such operation in this time range"}
            actions={
              operation === null ? (
                <LinkButton {...logsAddress(filter)}>Show its logs</LinkButton>
              ) : (
                <Button onClick={() => change({ operation: undefined })}>Show all operations</Button>
              )
            }
          >
            {operation === null
              ? "Requests are spans of the kinds server and consumer, and those that begin a trace. Choose a longer time range at the top, or look at what else the service sends."
              : "Choose a longer time range at the top, or look at all operations."}
          </EmptyState>
        ) : (
          <>
            <Totals totals={totals} seconds={seconds} />
            <RedCharts name={name} overTime={overTime} buckets={buckets} />
          </>
        )}
        {operations.result === null || operations.result.rows === 0 ? null : (
          <Part title="Operations" rows={operations.result.rows}>
            <OperationsTable
              query={operations}
              seconds={seconds}
              selected={operation}
              onSelect={(next) => change({ operation: next ?? undefined })}
            />
          </Part>
        )}
        <div className={css.pair}>
          <CallsPart title="Called by" query={callers} without="callee" seconds={seconds} />
          <CallsPart title="Calls" query={callees} without="caller" seconds={seconds} />
        </div>
        {exceptions.result === null ? null : exceptions.result.rows === 0 ? (
          hasSpans ? (
            <p className={css.none}>No exceptions in this time range.</p>
          ) : null
        ) : (
          <Part title="Exceptions" rows={exceptions.result.rows}>
            <ExceptionsTable query={exceptions} />
          </Part>
        )}
      </div>
    </div>
  );
}

function totalsSql(condition: string): string {
  return `SELECT count(*) AS requests, count_if(is_error) AS errors, approx_quantile(duration_ms, 0.5) AS p50,
  approx_quantile(duration_ms, 0.95) AS p95, approx_quantile(duration_ms, 0.99) AS p99,
  string_agg(DISTINCT service_version, ', ' ORDER BY service_version) AS versions
FROM spans WHERE ${condition}`;
}

function Problem({ queries }: { readonly queries: readonly SqlState[] }): ReactElement | null {
  const failed = queries.find(({ error }) => error !== null);
  return failed === undefined ? null : (
    <ErrorPart
      error={failed.error}
      title="Some of this page could not be read"
      onRetry={() => queries.filter(({ error }) => error !== null).forEach(({ run }) => run())}
    />
  );
}

function Totals({ totals, seconds }: { readonly totals: SqlState; readonly seconds: number }): ReactElement | null {
  if (totals.result === null) {
    return null;
  }
  const { number, text } = cellsOf(totals.result);
  const requests = number("requests", 0);
  const share = number("errors", 0) / requests;
  const facts: readonly (readonly [words: string, value: string, look?: string | undefined])[] = [
    ["Rate", formatRate(requests / seconds)],
    ["Requests", formatNumber(requests)],
    ["Errors", formatPercent(share), css[`total-${severityOf(share)}`]],
    ["p50", formatMilliseconds(number("p50", 0))],
    ["p95", formatMilliseconds(number("p95", 0))],
    ["p99", formatMilliseconds(number("p99", 0))],
    ["Version", text("versions", 0) === "" ? "–" : text("versions", 0)],
  ];
  return (
    <dl className={css.totals} aria-busy={totals.stale}>
      {facts.map(([words, value, look]) => (
        <div key={words}>
          <dt>{words}</dt>
          <dd className={look} title={value}>
            {value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function CallsPart({
  title,
  query,
  without,
  seconds,
}: {
  readonly title: string;
  readonly query: SqlState;
  readonly without: "caller" | "callee";
  readonly seconds: number;
}): ReactElement | null {
  const navigate = useNavigate();
  const calls = useMemo(() => readCalls(query.result), [query.result]);
  if (query.result === null) {
    return null;
  }
  return calls.length === 0 ? (
    <section className={css.part}>
      <h3>{title}</h3>
      <p className={css.none}>
        {without === "callee" ? "Nobody that sends spans" : "Nothing that is seen in its spans"}.
      </p>
    </section>
  ) : (
    <Part title={title} rows={calls.length}>
      <CallsTable
        calls={calls}
        seconds={seconds}
        without={without}
        label={title}
        stale={query.stale}
        onOpen={(name) =>
          calls.some(({ caller, callee, calleeType }) =>
            without === "callee" ? caller === name : callee === name && calleeType === "service",
          )
            ? void navigate({ to: servicePath(name) })
            : undefined
        }
      />
    </Part>
  );
}

const mostRows = 12;

/** A table as high as its rows, up to a dozen. */
function Part({
  title,
  rows,
  children,
}: {
  readonly title: string;
  readonly rows: number;
  readonly children: ReactElement;
}): ReactElement {
  return (
    <section className={css.part}>
      <h3>{title}</h3>
      <div className={css.table} style={{ height: Math.min(rows, mostRows) * 28 + 46 }}>
        {children}
      </div>
    </section>
  );
}
