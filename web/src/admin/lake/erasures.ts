/** Erasures in words, and what a form asks for. */
import type { Erasure } from "../../api/wire.js";
import { formatTimeExact } from "../../ui/format.js";
import { parseMoment } from "../../ui/time-range.js";
import { textProblem, textRules } from "../rules.js";

/** What rows have in common, as forms offer it. */
export const conditions = [
  { value: "service", label: "A service" },
  { value: "process", label: "A process" },
  { value: "trace", label: "A trace" },
  { value: "attribute", label: "An attribute" },
] as const;
export type ConditionKind = (typeof conditions)[number]["value"];

/** A form as it is filled in; times as people write them. */
export interface ErasureDraft {
  readonly audience: string;
  readonly kind: ConditionKind;
  /** Of an attribute. */
  readonly key: string;
  readonly value: string;
  readonly begin: string;
  readonly end: string;
}

/** What the server is asked for. */
export type ErasureRequest = Pick<Erasure, "audience" | "where"> & {
  /** RFC 3339 */
  readonly begin?: string;
  readonly end?: string;
};

/** What is wrong with a draft, by field; nothing in it: it can be sent. */
export function draftProblems(draft: ErasureDraft, nowMs: number): Partial<Record<keyof ErasureDraft, string>> {
  const { audience, kind, key, value, begin, end } = draft;
  const rule = kind === "attribute" ? textRules.attributeValue : textRules[kind];
  const problems = {
    audience: textProblem("audience", audience, textRules.audience),
    key: kind === "attribute" ? textProblem("key", key, textRules.attributeKey) : null,
    // An attribute may have an empty value.
    value:
      kind !== "attribute" ? textProblem(kind, value, rule) : value === "" ? null : textProblem("value", value, rule),
    begin: momentProblem("begin", begin, nowMs),
    end: momentProblem("end", end, nowMs) ?? orderProblem(begin, end, nowMs),
  };
  return Object.fromEntries(Object.entries(problems).filter(([, problem]) => problem !== null));
}

function momentProblem(name: string, text: string, nowMs: number): string | null {
  return text === "" || parseMoment(text, nowMs) !== null
    ? null
    : `${name} must be a time such as 2026-01-31, 2026-01-31T12:00:00Z or now-30d`;
}

function orderProblem(begin: string, end: string, nowMs: number): string | null {
  const from = begin === "" ? null : parseMoment(begin, nowMs);
  const to = end === "" ? null : parseMoment(end, nowMs);
  return from !== null && to !== null && from >= to ? "end must be after the time at From" : null;
}

/** Of a draft without problems. */
export function requestOf(draft: ErasureDraft, nowMs: number): ErasureRequest {
  const { audience, kind, key, value } = draft;
  const iso = (text: string): string | null => {
    const ms = text === "" ? null : parseMoment(text, nowMs);
    return ms === null ? null : new Date(ms).toISOString();
  };
  const begin = iso(draft.begin);
  const end = iso(draft.end);
  return {
    audience,
    where: kind === "attribute" ? { attribute: { key, value } } : { [kind]: value },
    ...(begin === null ? {} : { begin }),
    ...(end === null ? {} : { end }),
  };
}

/** A condition in words: "the service checkout". */
export function whereWords({ service, process, trace, attribute }: Erasure["where"]): string {
  if (service !== undefined) {
    return `the service ${service}`;
  }
  if (process !== undefined) {
    return `the process ${process}`;
  }
  if (trace !== undefined) {
    return `the trace ${trace}`;
  }
  if (attribute === undefined) {
    return "nothing";
  }
  const { key, value } = attribute;
  return value === "" ? `the attribute ${key} with an empty value` : `the attribute ${key} = ${value}`;
}

/** Bounds in words. @param bounds texts of times; null: none */
export function betweenWords(begin: string | null, end: string | null): string {
  if (begin === null && end === null) {
    return "of all times";
  }
  return [...(begin === null ? [] : [`from ${begin}`]), ...(end === null ? [] : [`before ${end}`])].join(", ");
}

/** A bound of an erasure, exact and in UTC. */
export function boundText(ns: string | null): string | null {
  return ns === null ? null : formatTimeExact(BigInt(ns)).replace(/\.?0+Z$/, "Z");
}

/** What an erasure deletes and what it leaves, in sentences. */
export function consequences({ audience, where, begin, end }: ErasureRequest): readonly string[] {
  const rows =
    where.trace === undefined ? "Log records, spans, points of metrics and histograms" : "Log records and spans";
  const has = where.attribute === undefined ? `of ${whereWords(where)}` : `that have ${whereWords(where)}`;
  const when =
    begin === undefined && end === undefined
      ? "whatever their time"
      : `with a time ${betweenWords(begin ?? null, end ?? null)}`;
  return [
    `${rows} of the audience ${audience} ${has}, ${when}, are deleted: all that were received until now. What arrives later stays.`,
    ...(where.trace === undefined && begin === undefined && end === undefined
      ? ["Its processes are deleted as well, unless they have sent something since."]
      : []),
    "They cannot be brought back. The files go about an hour later; backups, caches, and the text of queries for 30 days are not touched.",
  ];
}
