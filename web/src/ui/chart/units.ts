/** Units of values, on axes and in legends. */
import { formatBytes, formatCompact, formatDuration, formatPercent, nothing } from "../format.js";

/** What a number is; OpenTelemetry's units come from {@link unitOf}. */
export type Unit = "number" | "bytes" | "nanoseconds" | "milliseconds" | "seconds" | "fraction" | "per-second";

export function formatUnit(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) {
    return nothing;
  }
  switch (unit) {
    case "bytes":
      return formatBytes(value);
    case "nanoseconds":
      return value === 0 ? "0" : formatDuration(value);
    case "milliseconds":
      return value === 0 ? "0" : formatDuration(value * 1e6);
    case "seconds":
      return value === 0 ? "0" : formatDuration(value * 1e9);
    case "fraction":
      return formatPercent(value);
    case "per-second":
      return `${formatCompact(value)}/s`;
    case "number":
      return formatCompact(value);
  }
}

/** Between labels of an axis: of bytes, round numbers of KiB and the like; null: round numbers. */
export function stepsOf(unit: Unit): number[] | null {
  return unit === "bytes" ? Array.from({ length: 60 }, (_, power) => 2 ** power) : null;
}

/** Of a metric, by its UCUM code, or by the word that Micrometer sends. */
export function unitOf(code: string | null): Unit {
  return units.get(code ?? "") ?? "number";
}

const units: ReadonlyMap<string, Unit> = new Map([
  ["By", "bytes"],
  ["ns", "nanoseconds"],
  ["ms", "milliseconds"],
  ["s", "seconds"],
  ["bytes", "bytes"],
  ["nanoseconds", "nanoseconds"],
  ["milliseconds", "milliseconds"],
  ["seconds", "seconds"],
]);
