/** How long rows are kept, in days and in words. */
import type { RetentionDefault, RetentionOverride } from "../../api/wire.js";
import { formatCount } from "../../ui/format.js";

/** Whose rows have a retention, with the words for them. */
export const views = [
  { value: "log_entries", label: "Log records" },
  { value: "spans", label: "Spans" },
  { value: "measures", label: "Points of metrics" },
  { value: "histograms", label: "Histograms" },
  { value: "api_key_usage", label: "Use of keys" },
] as const;

/** Most days that a retention may have. */
export const mostDays = 36_500;

export function viewWords(view: string): string {
  return views.find(({ value }) => value === view)?.label ?? view;
}

/** @param days 0 or null: for good */
export function keptWords(days: number | null): string {
  return days === null || days === 0 ? "for good" : formatCount(days, "day");
}

/** Days that rows are kept, by the most specific rule; null: for good. `audience` null: one without rules of its own. */
export function daysKept(
  overrides: readonly RetentionOverride[],
  standard: number | null,
  view: string,
  audience: string | null,
): number | null {
  const ofView = overrides.filter((each) => each.view === view);
  const rule = ofView.find((each) => each.audience === audience) ?? ofView.find((each) => each.audience === null);
  const days = rule === undefined ? standard : rule.days;
  return days === 0 ? null : days;
}

/** Whether rows that are kept now go when this many days are kept; null: for good. */
export function removesMore(before: number | null, after: number | null): boolean {
  return after !== null && (before === null || after < before);
}

/** Whether any rule lets rows go for their age. */
export function removesAny(overrides: readonly RetentionOverride[], standard: number | null): boolean {
  return [standard, ...overrides.map(({ days }) => days)].some((days) => days !== null && days > 0);
}

/** What the default is, in a sentence. */
export function defaultWords({ days, seen_at: seenAt }: RetentionDefault): string {
  if (seenAt === null) {
    return "Maintenance has not said its default yet. It does so soon after a server with the role maintenance has started.";
  }
  return days === null
    ? "Rows are kept for good where no override says otherwise: SVC_RETENTION_DAYS of maintenance is not set."
    : `Rows are kept for ${keptWords(days)} where no override says otherwise: SVC_RETENTION_DAYS of maintenance.`;
}
