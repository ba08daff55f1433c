/** A span and its counterpart in full: what they have in common, and what differs first. */
import type { ReactElement } from "react";

import { formatMilliseconds, nothing } from "../../../ui/format.js";
import { LinkButton } from "../../../ui/controls/link-button.js";
import { Panel } from "../../../ui/panel.js";
import { classes } from "../../../ui/controls/controls.js";
import { propertiesOf } from "../../property.js";
import { traceAddress } from "../../trace-address.js";
import type { Span, Trace } from "../trace-model.js";
import { type AlignedSpan, alignProperties } from "./alignment.js";
import type { Compared } from "./compare-address.js";
import css from "./compare.module.css";

export function PairPanel({
  pair,
  a,
  b,
  ofA,
  ofB,
  onClose,
}: {
  readonly pair: AlignedSpan;
  readonly a: Compared;
  readonly b: Compared;
  readonly ofA: Trace;
  readonly ofB: Trace;
  readonly onClose: () => void;
}): ReactElement {
  const of = (trace: Trace, span: Span | null) => (span === null ? [] : propertiesOf(trace.properties(span.at)));
  const facts = alignProperties(factsOf(pair.a), factsOf(pair.b));
  const properties = alignProperties(of(ofA, pair.a), of(ofB, pair.b));
  const open = (letter: "A" | "B", { id }: Compared, trace: Trace, span: Span | null): ReactElement | null =>
    span === null ? null : (
      <LinkButton {...traceAddress(id, trace.beginMs, span.spanId)}>
        <span className={classes(css.letter, css[letter])}>{letter}</span> Open in its trace
      </LinkButton>
    );
  return (
    <Panel title={(pair.a ?? pair.b)?.name ?? ""} onClose={onClose}>
      <div className={css.links}>
        {open("A", a, ofA, pair.a)}
        {open("B", b, ofB, pair.b)}
      </div>
      <Rows title="Span" rows={facts} />
      <Rows title="Attributes" rows={properties} />
    </Panel>
  );
}

function factsOf(span: Span | null): readonly { readonly name: string; readonly value: string }[] {
  return span === null
    ? []
    : [
        { name: "Service", value: span.service },
        { name: "Took", value: formatMilliseconds(span.durationMs) },
        { name: "Itself", value: formatMilliseconds(span.selfMs) },
        { name: "Began after", value: formatMilliseconds(span.startMs) },
        { name: "Kind", value: span.kind ?? nothing },
        { name: "Failed", value: span.isError ? (span.statusMessage ?? "yes") : "no" },
      ];
}

function Rows({
  title,
  rows,
}: {
  readonly title: string;
  readonly rows: ReturnType<typeof alignProperties>;
}): ReactElement | null {
  return rows.length === 0 ? null : (
    <table className={css.pair}>
      <caption>{title}</caption>
      <thead>
        <tr>
          <th scope="col" className="visually-hidden">
            Name
          </th>
          <th scope="col">A</th>
          <th scope="col">B</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, a, b }) => (
          <tr key={name} data-same={a === b}>
            <th scope="row">{name}</th>
            <td>{a ?? nothing}</td>
            <td>{b ?? nothing}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
