/** A span in full: attributes, events, exceptions, links, logs. */
import { Link, useNavigate } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";

import { cellsOf } from "../../api/cells.js";
import { type SqlState, useQuerySql } from "../../api/use-query-sql.js";
import { textValue, timeValue, type Value } from "../../arrow/column.js";
import { attributeKey, formatFilter } from "../../ui/filters/filters.js";
import { formatMilliseconds, formatTime, nothing } from "../../ui/format.js";
import { Panel } from "../../ui/panel.js";
import { Banner, ErrorPart, Skeleton } from "../../ui/states.js";
import { LogLine } from "../logs/log-line.js";
import type { LogRows } from "../logs/log-rows.js";
import { Properties } from "../properties.js";
import { propertiesOf, type Property } from "../property.js";
import { traceAddress } from "../trace-address.js";
import { Fact } from "./fact.js";
import css from "./span-panel.module.css";
import { spanColumns } from "./search/trace-query.js";
import type { Span, Trace } from "./trace-model.js";

const mostLogs = 200;

export function SpanPanel({
  traceId,
  trace,
  span,
  logs,
  colour,
  onClose,
}: {
  readonly traceId: string;
  readonly trace: Trace;
  readonly span: Span;
  /** Of the whole trace. */
  readonly logs: LogRows;
  readonly colour: string;
  readonly onClose: () => void;
}): ReactElement {
  const navigate = useNavigate();
  const atMs = trace.beginMs + span.startMs;
  const detail = useQuerySql(
    `SELECT events, links, process_properties, service_version, host_name, target, process_id, trace_state
FROM spans WHERE trace_id = ? AND span_id = ? LIMIT 1`,
    { parameters: [traceId, span.spanId], range: { beginMs: atMs - 1000, endMs: atMs + 1000 } },
  );
  const attributes = useMemo(() => propertiesOf(trace.properties(span.at)), [trace, span]);
  const own = useMemo(
    () =>
      Array.from({ length: logs.count }, (_, row) => row).filter((row) => logs.value(row, "span_id") === span.spanId),
    [logs, span],
  );
  // Which other spans are alike is a question to the search.
  const filter = (name: string, value: string | null, exclude: boolean): void => {
    const key = attributeKey(name, spanColumns);
    const text = formatFilter(
      value === null
        ? { key, operator: exclude ? "exists" : "missing", value: "" }
        : { key, operator: exclude ? "!=" : "=", value },
    );
    void navigate({ to: "/traces", search: { filter: text } });
  };
  return (
    <Panel title={span.name} onClose={onClose}>
      <p className={css.top}>
        <span className={css.swatch} style={{ background: colour }} />
        {span.service}
        <span className={css.muted}>{span.kind}</span>
      </p>
      <dl className={css.facts}>
        <Fact name="Took" value={formatMilliseconds(span.durationMs)} />
        <Fact name="Itself" value={formatMilliseconds(span.selfMs)} />
        <Fact name="Began after" value={formatMilliseconds(span.startMs)} />
        <Fact name="At" value={formatTime(atMs, { date: false })} />
      </dl>
      {span.isError ? (
        <div className={css.note}>
          <Banner kind="error" title="Failed">
            {span.statusMessage === null ? null : <p>{span.statusMessage}</p>}
          </Banner>
        </div>
      ) : null}
      <Properties title="Attributes" properties={attributes} onFilter={filter} />
      {detail.error !== null ? (
        <ErrorPart error={detail.error} title="Events and links could not be read" onRetry={detail.run} />
      ) : detail.result === null ? (
        <Skeleton rows={3} />
      ) : (
        <Details state={detail} span={span} beginMs={trace.beginMs} />
      )}
      {own.length === 0 ? null : (
        <section className={css.part} aria-label="Logs">
          <h3>Logs</h3>
          {own.slice(0, mostLogs).map((row) => (
            <LogLine
              key={row}
              level={textValue(logs.value(row, "level_name"))}
              time={timeValue(logs.value(row, "time"))}
              text={textValue(logs.value(row, "msg"))}
            />
          ))}
          {own.length > mostLogs ? <p className={css.more}>{own.length - mostLogs} more under Logs</p> : null}
        </section>
      )}
      <Properties
        title="Span"
        properties={[
          { name: "span_id", value: span.spanId },
          { name: "parent_span_id", value: trace.spans[span.parent]?.spanId ?? null },
          { name: "trace_id", value: traceId },
        ]}
      />
    </Panel>
  );
}

type Struct = { readonly [name: string]: Value };
const structs = (value: Value | undefined): readonly Struct[] =>
  Array.isArray(value) ? (value as readonly Struct[]) : [];

function Details({
  state,
  span,
  beginMs,
}: {
  readonly state: SqlState;
  readonly span: Span;
  readonly beginMs: number;
}): ReactElement {
  const value = (name: string): Value => (state.result === null ? null : cellsOf(state.result).value(name, 0));
  const fields = ["service_version", "host_name", "target", "process_id", "trace_state"]
    .map((name): Property => ({ name, value: textValue(value(name)) }))
    .filter((field) => field.value !== null && field.value !== "");
  return (
    <>
      {structs(value("events")).map((event, at) => (
        <Event key={at} event={event} span={span} beginMs={beginMs} />
      ))}
      {structs(value("links")).map((link, at) => {
        const linked = textValue(link["trace_id"] ?? null) ?? "";
        const linkedSpan = textValue(link["span_id"] ?? null);
        return (
          <section key={at} className={css.part} aria-label="Link">
            <h3>Link</h3>
            <p className={css.link}>
              <Link {...traceAddress(linked, beginMs, linkedSpan)}>{linked}</Link>
            </p>
            <Properties
              title="Attributes of the link"
              properties={propertiesOf(textValue(link["properties"] ?? null))}
            />
          </section>
        );
      })}
      <Properties title="Fields" properties={fields} />
      <Properties title="Process" properties={propertiesOf(textValue(value("process_properties")))} />
    </>
  );
}

/** An exception shows its message and its stack before everything else. */
function Event({
  event,
  span,
  beginMs,
}: {
  readonly event: Struct;
  readonly span: Span;
  readonly beginMs: number;
}): ReactElement {
  const properties = propertiesOf(textValue(event["properties"] ?? null));
  const of = (name: string): string | null => properties.find((each) => each.name === name)?.value ?? null;
  const name = textValue(event["name"] ?? null) ?? nothing;
  const after = formatMilliseconds(Number(timeValue(event["time"] ?? null)) / 1e6 - beginMs - span.startMs);
  const stack = of("exception.stacktrace");
  return name === "exception" ? (
    <section className={css.part} aria-label="Exception">
      <h3>Exception after {after}</h3>
      <p className={css.exception}>
        <strong>{of("exception.type")}</strong> {of("exception.message")}
      </p>
      {stack === null ? null : (
        <pre className={css.stack} tabIndex={0} role="region" aria-label="Stack trace">
          {stack}
        </pre>
      )}
    </section>
  ) : (
    <section className={css.part} aria-label={`Event ${name}`}>
      <h3>
        Event after {after}: {name}
      </h3>
      <Properties title="Attributes of the event" properties={properties} />
    </section>
  );
}
