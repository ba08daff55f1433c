/** What the usage page makes of the server's rows. */
import type { ChartData } from "../../ui/chart/series.js";
import type { UsageRow } from "../../api/wire.js";

/** A number of requests, bytes and records. */
export type Use = Pick<UsageRow, "requests" | "bytes" | "records">;

/** The sum of a key or an audience. */
export interface UsageSum extends Use {
  /** Key id, or the audience. */
  readonly id: string;
  readonly name: string;
  readonly audience: string;
  /** Start of the last hour or day with use, RFC 3339. */
  readonly last: string;
}

export type UsageBy = "key" | "audience";

/** Largest first, by the measure. */
export function sumsOf(rows: readonly UsageRow[], by: UsageBy, measure: keyof Use): readonly UsageSum[] {
  const sums = new Map<string, UsageSum>();
  for (const row of rows) {
    const id = by === "key" ? row.key_id : row.audience;
    const before = sums.get(id);
    sums.set(id, {
      id,
      name: by === "key" ? row.name : row.audience,
      audience: row.audience,
      requests: row.requests + (before?.requests ?? 0),
      bytes: row.bytes + (before?.bytes ?? 0),
      records: row.records + (before?.records ?? 0),
      last: before === undefined || before.last < row.at ? row.at : before.last,
    });
  }
  return [...sums.values()].toSorted((a, b) => b[measure] - a[measure] || a.name.localeCompare(b.name));
}

const mostSeries = 9;
const others = "all others";

/**
 * A series for each of the largest, and one for what the others add up to. Hours and days without use are 0.
 * @param stepMs length of what a row sums up.
 */
export function chartOf(
  rows: readonly UsageRow[],
  sums: readonly UsageSum[],
  o: {
    readonly by: UsageBy;
    readonly measure: keyof Use;
    readonly beginMs: number;
    readonly endMs: number;
    readonly stepMs: number;
  },
): ChartData {
  const { by, measure, stepMs } = o;
  const firstMs = Math.floor(o.beginMs / stepMs) * stepMs;
  const count = Math.max(1, Math.ceil((o.endMs - firstMs) / stepMs));
  const times = Float64Array.from({ length: count }, (_, at) => firstMs + at * stepMs);
  const names = seriesNames(sums);
  const series = new Map<string, Float64Array>();
  for (const row of rows) {
    const name = names.get(by === "key" ? row.key_id : row.audience) ?? others;
    const values = series.get(name) ?? new Float64Array(count);
    series.set(name, values);
    const at = Math.floor((Date.parse(row.at) - firstMs) / stepMs);
    if (at >= 0 && at < count) {
      values[at] = (values[at] ?? 0) + row[measure];
    }
  }
  const order = [...new Set([...names.values(), others])].filter((name) => series.has(name));
  return { times, series: order.map((name) => ({ name, values: series.get(name) ?? new Float64Array(count) })) };
}

/** Of the largest; two keys of one name are told apart by their ids. */
function seriesNames(sums: readonly UsageSum[]): ReadonlyMap<string, string> {
  const largest = sums.slice(0, mostSeries);
  const isTwice = (name: string): boolean => sums.filter((each) => each.name === name).length > 1;
  return new Map(largest.map(({ id, name }) => [id, isTwice(name) ? `${name} (${id.slice(0, 8)})` : name]));
}
