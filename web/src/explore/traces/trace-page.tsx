/** A trace: waterfall, flame graph, its logs; a span in full at the right. */
import { useParams } from "@tanstack/react-router";
import { ChartNoAxesGantt, CircleAlert, Flame, GitCompareArrows, ListTree, ScrollText } from "lucide-react";
import { type ReactElement, useMemo, useState } from "react";

import { useQuerySql } from "../../api/use-query-sql.js";
import { textValue } from "../../arrow/column.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { seriesColours } from "../../ui/colours.js";
import { Button, CopyButton } from "../../ui/controls/controls.js";
import { formatMilliseconds, formatNumber, formatTime } from "../../ui/format.js";
import { LinkButton } from "../../ui/controls/link-button.js";
import { Split, useGoneFocus } from "../../ui/panel.js";
import { Banner, EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../ui/states.js";
import { LogList } from "../logs/log-list.js";
import { logRows, logSelect } from "../logs/log-rows.js";
import { isTraceId } from "../trace-address.js";
import { useNarrow } from "../../app/use-narrow.js";
import { chooseAddress } from "./compare/compare-address.js";
import { Fact } from "./fact.js";
import { FlameGraph } from "./flame-graph.js";
import { SpanPanel } from "./span-panel.js";
import type { Trace } from "./trace-model.js";
import css from "./trace-page.module.css";
import { useTrace } from "./use-trace.js";
import { Waterfall } from "./waterfall/waterfall.js";

const tabs = ["waterfall", "flame", "logs"] as const;

export default function TracePage(): ReactElement {
  const parameters: { readonly id?: string } = useParams({ strict: false });
  const id = parameters.id ?? "";
  // Another trace begins anew.
  return <TraceOf key={id} id={id.toLowerCase()} />;
}

function TraceOf({ id }: { readonly id: string }): ReactElement {
  const search = useSearchParameters();
  const { query: tree, trace, isOfEverywhere, isMissing, range } = useTrace(id, textOf(search["at"]));
  const failure =
    tree.error === null ? null : (
      <div className={css.note}>
        <ErrorPart error={tree.error} title="The trace could not be read" onRetry={tree.run} />
      </div>
    );
  if (isMissing) {
    return (
      <EmptyState icon={<ListTree />} title="There is no such trace">
        {isTraceId(id)
          ? "None of its spans is among those that you may read. It may be older than what is kept, or still on its way: try again in some seconds."
          : "The id of a trace has 32 hexadecimal digits."}
      </EmptyState>
    );
  }
  const shown =
    trace === null ? (
      (failure ?? <Skeleton rows={14} />)
    ) : (
      <TraceView id={id} trace={trace} isOfEverywhere={isOfEverywhere} range={range} failure={failure} />
    );
  return (
    <>
      <LoadingLine running={tree.running} />
      {shown}
    </>
  );
}

function TraceView({
  id,
  trace,
  isOfEverywhere,
  range,
  failure,
}: {
  readonly id: string;
  readonly trace: Trace;
  readonly isOfEverywhere: boolean;
  readonly range: { readonly beginMs: number; readonly endMs: number } | null;
  /** Why it could not be read again. */
  readonly failure: ReactElement | null;
}): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const narrow = useNarrow();
  const tab = tabs.find((each) => each === textOf(search["tab"])) ?? "waterfall";
  const spanId = textOf(search["span"]);
  const selected = spanId === null ? null : (trace.spans.find((span) => span.spanId === spanId) ?? null);
  const logs = useQuerySql(logSelect.replace("FROM log_entries", "FROM trace_logs(?) ORDER BY time"), {
    parameters: [id],
    range,
  });
  const rows = useMemo(() => logRows([], logs.result), [logs.result]);
  const [log, setLog] = useState<number | null>(null);
  const colours = useMemo(() => {
    const found = seriesColours(trace.services);
    return new Map(trace.services.map((name, at) => [name, found[at] ?? "var(--series-0)"]));
  }, [trace]);
  const show = (name: (typeof tabs)[number]): void => change({ tab: name === "waterfall" ? undefined : name });
  const select = (at: number | null): void =>
    change({ span: at === null ? undefined : trace.spans[at]?.spanId }, { replace: true });
  const panel =
    selected === null ? null : (
      <SpanPanel
        key={selected.spanId}
        traceId={id}
        trace={trace}
        span={selected}
        logs={rows}
        colour={colours.get(selected.service) ?? "var(--series-0)"}
        onClose={() => select(null)}
      />
    );
  return (
    <div className={css.page}>
      {failure}
      <Head
        id={id}
        trace={trace}
        colours={colours}
        isOfEverywhere={isOfEverywhere}
        onWiden={range === null ? null : () => change({ at: undefined }, { replace: true })}
      />
      {trace.spans.some(({ isOrphan }) => isOrphan) ? (
        <div className={css.note}>
          <Banner kind="warn">Spans whose parent is not there are shown as roots: the trace may not be whole.</Banner>
        </div>
      ) : null}
      <div className={css.tabs} role="group" aria-label="View">
        <Button look="quiet" aria-pressed={tab === "waterfall"} onClick={() => show("waterfall")}>
          <ChartNoAxesGantt /> Waterfall
        </Button>
        <Button look="quiet" aria-pressed={tab === "flame"} onClick={() => show("flame")}>
          <Flame /> Flame graph
        </Button>
        <Button look="quiet" aria-pressed={tab === "logs"} onClick={() => show("logs")}>
          <ScrollText /> Logs {logs.summary === null ? "" : formatNumber(rows.count)}
        </Button>
      </div>
      <div className={css.body}>
        <Split panel={panel}>
          {tab === "waterfall" ? (
            <Waterfall
              trace={trace}
              colours={colours}
              selected={selected?.at ?? null}
              narrow={narrow}
              onSelect={select}
            />
          ) : tab === "flame" ? (
            <FlameGraph trace={trace} colours={colours} />
          ) : logs.error !== null ? (
            <div className={css.note}>
              <ErrorPart error={logs.error} title="The logs of the trace could not be read" onRetry={logs.run} />
            </div>
          ) : logs.result === null ? (
            <Skeleton />
          ) : rows.count === 0 ? (
            <EmptyState icon={<ScrollText />} title="Nothing was logged in this trace">
              Log records that carry the id of the trace are shown here.
            </EmptyState>
          ) : (
            <LogList
              rows={rows}
              columns={[]}
              searched=""
              spanMs={trace.durationMs}
              narrow={narrow}
              stale={logs.stale}
              selected={log}
              onSelect={(row) => {
                setLog(row);
                change(
                  { span: textValue(row === null ? null : rows.value(row, "span_id")) ?? undefined },
                  { replace: true },
                );
              }}
              onFilter={() => undefined}
            />
          )}
        </Split>
      </div>
    </div>
  );
}

function Head({
  id,
  trace,
  colours,
  isOfEverywhere,
  onWiden,
}: {
  readonly id: string;
  readonly trace: Trace;
  readonly colours: ReadonlyMap<string, string>;
  readonly isOfEverywhere: boolean;
  /** Looks for its spans everywhere; null: that is done, or under way. */
  readonly onWiden: (() => void) | null;
}): ReactElement {
  const root = trace.spans[0];
  const goneFocus = useGoneFocus<HTMLDivElement>();
  return (
    <div {...goneFocus} className={css.head}>
      <h2 title={root?.name}>
        <span className={css.swatch} style={{ background: colours.get(root?.service ?? "") }} />
        {root?.service}: {root?.name}
      </h2>
      <dl className={css.facts}>
        <Fact name="Began" value={formatTime(trace.beginMs)} />
        <Fact name="Took" value={formatMilliseconds(trace.durationMs)} />
        <Fact name="Spans" value={formatNumber(trace.spans.length)} />
        <Fact name="Services" value={formatNumber(trace.services.length)} />
        <div className={trace.errors > 0 ? css.failed : undefined}>
          <dt>Errors</dt>
          <dd>
            {trace.errors > 0 ? <CircleAlert aria-hidden /> : null} {formatNumber(trace.errors)}
          </dd>
        </div>
        {/* Nothing in a range tells of spans after a longer pause, and everywhere is too much to look at for each trace. */}
        <Fact name="Looked" value={isOfEverywhere ? "at all times" : "within an hour of it"} />
      </dl>
      {onWiden === null ? null : <Button onClick={onWiden}>Look at all times</Button>}
      <LinkButton {...chooseAddress(id, trace)}>
        <GitCompareArrows aria-hidden /> Compare with…
      </LinkButton>
      <CopyButton text={id} label="Copy the trace id" />
    </div>
  );
}
