/** Two traces side by side: totals, the spans of both as one tree, and a pair of spans in full at the right. */
import { ArrowLeftRight, GitCompareArrows } from "lucide-react";
import { Link } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";

import { textOf, useChangeSearch, useSearchParameters } from "../../../app/search.js";
import { Button, classes } from "../../../ui/controls/controls.js";
import { formatMilliseconds, formatNumber, formatTime } from "../../../ui/format.js";
import { LinkButton } from "../../../ui/controls/link-button.js";
import { Split } from "../../../ui/panel.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../../ui/states.js";
import { traceAddress } from "../../trace-address.js";
import { useNarrow } from "../../../app/use-narrow.js";
import type { Trace } from "../trace-model.js";
import { useTrace } from "../use-trace.js";
import { align, countAligned } from "./alignment.js";
import { chooseFirst, type Compared, compareText, parseCompared } from "./compare-address.js";
import { changeText, CompareTable, signedMs } from "./compare-table.js";
import css from "./compare.module.css";
import { PairPanel } from "./pair-panel.js";

export default function ComparePage(): ReactElement {
  const search = useSearchParameters();
  const a = parseCompared(textOf(search["a"]));
  const b = parseCompared(textOf(search["b"]));
  if (a === null || b === null) {
    return (
      <EmptyState
        icon={<GitCompareArrows />}
        title="Two traces are compared here"
        actions={
          <LinkButton to="/traces" search={{ compare: chooseFirst }}>
            Choose two traces
          </LinkButton>
        }
      >
        The address has to name both. Choose them in the list of traces.
      </EmptyState>
    );
  }
  // Other traces begin anew.
  return <Comparison key={`${a.id} ${b.id}`} a={a} b={b} />;
}

function Comparison({ a, b }: { readonly a: Compared; readonly b: Compared }): ReactElement {
  const [ofA, ofB] = [useTrace(a.id, a.at), useTrace(b.id, b.at)];
  const failed = [ofA, ofB].find(({ query }) => query.error !== null);
  const missing = ofA.isMissing ? a : ofB.isMissing ? b : null;
  const failure =
    failed === undefined ? null : (
      <div className={css.note}>
        <ErrorPart error={failed.query.error} title="A trace could not be read" onRetry={failed.query.run} />
      </div>
    );
  if (missing !== null) {
    return (
      <EmptyState icon={<GitCompareArrows />} title="One of the traces is not there">
        None of the spans of <code>{missing.id}</code> is among those that you may read. It may be older than what is
        kept.
      </EmptyState>
    );
  }
  if (ofA.trace === null || ofB.trace === null) {
    return (
      failure ?? (
        <>
          <LoadingLine running={ofA.query.running || ofB.query.running} />
          <Skeleton rows={14} />
        </>
      )
    );
  }
  return <Compare a={a} b={b} ofA={ofA.trace} ofB={ofB.trace} failure={failure} />;
}

function Compare({
  a,
  b,
  ofA,
  ofB,
  failure,
}: {
  readonly a: Compared;
  readonly b: Compared;
  readonly ofA: Trace;
  readonly ofB: Trace;
  /** Why they could not be read again. */
  readonly failure: ReactElement | null;
}): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const narrow = useNarrow();
  const rows = useMemo(() => align(ofA.spans, ofB.spans), [ofA, ofB]);
  const { both, onlyA, onlyB } = useMemo(() => countAligned(rows), [rows]);
  const at = Number(textOf(search["row"]) ?? Number.NaN);
  const selected = rows[at] === undefined ? null : at;
  const pair = rows[at];
  const select = (row: number | null): void =>
    change({ row: row === null ? undefined : String(row) }, { replace: true });
  return (
    <div className={css.page}>
      <div>{failure}</div>
      <div className={css.totals}>
        <table>
          <thead>
            <tr>
              <td />
              <th scope="col">Trace</th>
              <th scope="col">Took</th>
              <th scope="col">Spans</th>
              <th scope="col">Errors</th>
              <th scope="col" className={css.wide}>
                Services
              </th>
              <th scope="col" className={css.wide}>
                Began
              </th>
            </tr>
          </thead>
          <tbody>
            <Total letter="A" compared={a} trace={ofA} />
            <Total letter="B" compared={b} trace={ofB} />
            <tr className={css.difference}>
              <td />
              <th scope="row">Difference</th>
              <td className={lookOf(ofB.durationMs - ofA.durationMs)}>
                {signedMs(ofB.durationMs - ofA.durationMs)}{" "}
                <span className={css.wide}>{changeText(ofA.durationMs, ofB.durationMs)}</span>
              </td>
              <td>{signed(ofB.spans.length - ofA.spans.length)}</td>
              <td className={lookOf(ofB.errors - ofA.errors)}>{signed(ofB.errors - ofA.errors)}</td>
              <td className={css.wide}>{signed(ofB.services.length - ofA.services.length)}</td>
              <td className={css.wide} />
            </tr>
          </tbody>
        </table>
      </div>
      <div className={css.tools}>
        <p role="status">
          {formatNumber(both)} in both, {formatNumber(onlyA)} only in A, {formatNumber(onlyB)} only in B
          {both === 0 ? ". They begin with different spans, so nothing has a counterpart." : ""}
        </p>
        <Button onClick={() => change({ a: compareText(b), b: compareText(a), row: undefined })}>
          <ArrowLeftRight /> Swap
        </Button>
      </div>
      <div className={css.body}>
        <Split
          panel={
            pair === undefined ? null : (
              <PairPanel key={at} pair={pair} a={a} b={b} ofA={ofA} ofB={ofB} onClose={() => select(null)} />
            )
          }
        >
          <CompareTable rows={rows} narrow={narrow} selected={selected} onSelect={select} />
        </Split>
      </div>
    </div>
  );
}

const lookOf = (difference: number): string | undefined =>
  difference > 0 ? css.more : difference < 0 ? css.less : undefined;

const signed = (count: number): string => (count > 0 ? `+${formatNumber(count)}` : formatNumber(count));

function Total({
  letter,
  compared,
  trace,
}: {
  readonly letter: "A" | "B";
  readonly compared: Compared;
  readonly trace: Trace;
}): ReactElement {
  const root = trace.spans[0];
  return (
    <tr>
      <td>
        <span className={classes(css.letter, css[letter])}>{letter}</span>
      </td>
      <th scope="row" className={css.root}>
        <Link {...traceAddress(compared.id, trace.beginMs)} title={compared.id}>
          {root?.service}: {root?.name}
        </Link>
      </th>
      <td>{formatMilliseconds(trace.durationMs)}</td>
      <td>{formatNumber(trace.spans.length)}</td>
      <td className={trace.errors > 0 ? css.more : undefined}>{formatNumber(trace.errors)}</td>
      <td className={css.wide}>{formatNumber(trace.services.length)}</td>
      <td className={css.wide}>{formatTime(trace.beginMs, { digits: 0 })}</td>
    </tr>
  );
}
