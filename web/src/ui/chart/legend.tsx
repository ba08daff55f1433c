/** The series of a chart as a table. */
import { type ReactElement, useMemo, useState } from "react";

import css from "./chart.module.css";
import { type ChartData, type SeriesSummary, summarize } from "./series.js";
import { formatUnit, type Unit } from "./units.js";

const heads = [
  ["last", "Last"],
  ["min", "Min"],
  ["max", "Max"],
  ["mean", "Mean"],
] as const satisfies readonly (readonly [keyof SeriesSummary, string])[];

type Key = "name" | keyof SeriesSummary;

export function Legend({
  data,
  colours,
  unit,
  cursor,
  hidden,
  onToggle,
}: {
  readonly data: ChartData;
  readonly colours: readonly string[];
  readonly unit: Unit;
  /** Place of the time under the cursor, whose values are shown in place of the last ones. */
  readonly cursor: number | null;
  readonly hidden: ReadonlySet<string>;
  readonly onToggle: (name: string, alone: boolean) => void;
}): ReactElement {
  const [sort, setSort] = useState<{ readonly key: Key; readonly descending: boolean } | null>(null);
  const rows = useMemo(
    () =>
      data.series.map(({ name, values }, at) => ({ name, values, colour: colours[at] ?? "", ...summarize(values) })),
    [data, colours],
  );
  const sorted =
    sort === null
      ? rows
      : rows.toSorted((a, b) => {
          const order = sort.key === "name" ? a.name.localeCompare(b.name) : a[sort.key] - b[sort.key];
          return sort.descending ? -order : order;
        });
  const head = (key: Key, words: string): ReactElement => (
    <th
      key={key}
      scope="col"
      className={key === "name" ? css.name : undefined}
      aria-sort={sort?.key !== key ? "none" : sort.descending ? "descending" : "ascending"}
    >
      <button
        type="button"
        onClick={() => setSort({ key, descending: sort?.key === key ? !sort.descending : key !== "name" })}
      >
        {words}
      </button>
    </th>
  );
  return (
    <div className={css.legend} tabIndex={0} role="group" aria-label="Legend">
      <table>
        <thead>
          <tr>
            {head("name", "Series")}
            {heads.map(([key, words]) => head(key, key === "last" && cursor !== null ? "At cursor" : words))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <tr key={row.name}>
              <td className={css.name}>
                <button
                  type="button"
                  aria-pressed={!hidden.has(row.name)}
                  title="Click to hide or show; with Ctrl to see it alone"
                  onClick={(event) => onToggle(row.name, event.ctrlKey || event.metaKey)}
                >
                  <span className={css.swatch} style={{ background: row.colour }} />
                  <span className={css.words}>{row.name}</span>
                </button>
              </td>
              {heads.map(([key]) => (
                <td key={key}>
                  {formatUnit(key === "last" && cursor !== null ? (row.values[cursor] ?? Number.NaN) : row[key], unit)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
