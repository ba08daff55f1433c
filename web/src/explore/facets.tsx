/** The most frequent values of some keys, beside a list: a click includes one, another excludes it. */
import { Ban, Plus, X } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { useQuerySql } from "../api/use-query-sql.js";
import { useScope } from "../app/scope.js";
import { classes, Button, IconButton, Menu, MenuItem } from "../ui/controls/controls.js";
import { attributeOf, type Condition, conditionOf, type Filter, type FilterColumns } from "../ui/filters/filters.js";
import { formatCompact } from "../ui/format.js";
import { useGoneFocus } from "../ui/panel.js";
import { LevelLetter } from "../ui/level.js";
import { ErrorPart, Skeleton } from "../ui/states.js";
import type { ExploredView } from "./attribute-keys.js";
import css from "./facets.module.css";
import type { ListChange } from "./use-filters.js";

export interface FacetsProps {
  readonly view: ExploredView;
  readonly columns: FilterColumns;
  readonly filters: readonly Filter[];
  /** Beside the filters. */
  readonly condition: Condition;
  readonly keys: readonly string[];
  /** To choose from. */
  readonly attributes: readonly string[];
  readonly onKeys: (change: ListChange<string>) => void;
  readonly onToggle: (key: string, value: string | null, exclude: boolean) => void;
}

const mostValues = 10;

interface FacetValue {
  readonly value: string | null;
  readonly count: number;
}

export function Facets(o: FacetsProps): ReactElement {
  const { audience } = useScope();
  const { sql, parameters } = useMemo(
    () => facetQuery(o, audience),
    [o.view, o.columns, o.filters, o.condition, o.keys, audience],
  );
  const query = useQuerySql(sql, { parameters, enabled: o.keys.length > 0 });
  const { result } = query;
  const values = useMemo(() => {
    const [key, value, count] = result?.columns ?? [];
    // The keys that were asked for, not those that are shown: they differ until the next result, and after a failure.
    const found = new Map<string, FacetValue[]>(result === null ? [] : o.keys.map((each) => [each, []]));
    for (let row = 0; row < (result?.rows ?? 0); row++) {
      const each = value?.value(row);
      found.get(key?.text(row) ?? "")?.push({
        value: typeof each === "string" ? each : null,
        count: count?.number(row) ?? 0,
      });
    }
    return found;
  }, [result]);
  const goneFocus = useGoneFocus<HTMLDivElement>();
  const more = o.attributes.filter((key) => !o.keys.includes(key));
  return (
    <div
      className={classes(css.facets, query.stale && css.stale)}
      role="group"
      aria-label="Facets"
      aria-busy={query.stale}
      tabIndex={-1}
      {...goneFocus}
    >
      {query.error === null ? null : (
        <ErrorPart error={query.error} title="The values could not be counted" onRetry={query.run} />
      )}
      {o.keys.map((key) => (
        <Facet
          key={key}
          name={key}
          values={values.get(key) ?? null}
          loading={query.running && !values.has(key)}
          known={query.error === null}
          filters={o.filters}
          onToggle={o.onToggle}
          onRemove={() => o.onKeys((before) => before.filter((each) => each !== key))}
        />
      ))}
      <Menu
        align="start"
        trigger={
          <Button look="quiet">
            <Plus /> Add a facet
          </Button>
        }
      >
        {[...o.columns.text.filter((key) => !o.keys.includes(key)), ...more.slice(0, 60)].map((key) => (
          <MenuItem key={key} onClick={() => o.onKeys((before) => [...before, key])}>
            {key}
          </MenuItem>
        ))}
      </Menu>
    </div>
  );
}

function Facet(o: {
  readonly name: string;
  readonly values: readonly FacetValue[] | null;
  readonly loading: boolean;
  /** Whether `values` are all that there are. */
  readonly known: boolean;
  readonly filters: readonly Filter[];
  readonly onToggle: FacetsProps["onToggle"];
  readonly onRemove: () => void;
}): ReactElement {
  const most = Math.max(1, ...(o.values ?? []).map(({ count }) => count));
  return (
    <section className={css.facet} aria-label={o.name}>
      <div className={css.head}>
        <h2 title={o.name}>{o.name}</h2>
        <IconButton label={`Remove the facet ${o.name}`} onClick={o.onRemove}>
          <X />
        </IconButton>
      </div>
      {o.loading ? <Skeleton rows={3} /> : null}
      <ul>
        {(o.values ?? []).map(({ value, count }) => (
          <FacetRow
            key={value ?? "\0"}
            name={o.name}
            value={value}
            count={count}
            fraction={count / most}
            state={stateOf(o.filters, o.name, value)}
            onToggle={o.onToggle}
          />
        ))}
      </ul>
      {!o.loading && o.known && o.values?.length === 0 ? <p className={css.none}>No value</p> : null}
    </section>
  );
}

function FacetRow(o: {
  readonly name: string;
  readonly value: string | null;
  readonly count: number;
  readonly fraction: number;
  readonly state: "in" | "out" | null;
  readonly onToggle: FacetsProps["onToggle"];
}): ReactElement {
  const words = o.value === null ? "(none)" : o.value === "" ? "(empty)" : o.value;
  return (
    <li className={classes(css.row, o.state === "out" && css.out)}>
      <div className={css.bar} style={{ width: `${o.fraction * 100}%` }} />
      <button
        type="button"
        className={css.value}
        title={words}
        aria-pressed={o.state === "in"}
        onClick={() => o.onToggle(o.name, o.value, false)}
      >
        {o.name === "level_name" ? <LevelLetter level={o.value} /> : null}
        <span className={css.words}>{words}</span>
        <span className={css.count}>{formatCompact(o.count)}</span>
      </button>
      <button
        type="button"
        className={css.exclude}
        aria-label={`Exclude ${words}`}
        title={`Exclude ${words}`}
        aria-pressed={o.state === "out"}
        onClick={() => o.onToggle(o.name, o.value, true)}
      >
        <Ban aria-hidden />
      </button>
    </li>
  );
}

function stateOf(filters: readonly Filter[], key: string, value: string | null): "in" | "out" | null {
  const found = filters.find(
    (each) =>
      each.key === key &&
      (value === null ? each.operator === "missing" || each.operator === "exists" : each.value === value),
  );
  if (found === undefined) {
    return null;
  }
  const included = value === null ? found.operator === "missing" : found.operator === "=";
  return included ? "in" : "out";
}

/** Values are counted under all filters but those of their own key, so that others can be chosen beside them. */
function facetQuery(
  o: Pick<FacetsProps, "view" | "columns" | "filters" | "condition" | "keys">,
  audience: string | null,
): Condition {
  const parts = o.keys.map((key): Condition => {
    const isColumn = o.columns.text.includes(key);
    const others = o.filters.filter((filter) => filter.key !== key);
    const filtered = conditionOf(others, o.columns, audience);
    return {
      sql: `(SELECT ${isColumn ? `'${key}' AS facet, "${key}"` : `? AS facet, attr(${o.columns.attributes ?? "properties"}, ?)`} AS found, count(*) AS entries
FROM ${o.view} WHERE ${filtered.sql} AND ${o.condition.sql} GROUP BY 2 ORDER BY entries DESC, 2 LIMIT ${mostValues})`,
      parameters: [
        ...(isColumn ? [] : [key, attributeOf(key, o.columns)]),
        ...filtered.parameters,
        ...o.condition.parameters,
      ],
    };
  });
  return {
    sql: `SELECT facet, found, entries FROM (${parts.map(({ sql }) => sql).join("\nUNION ALL ")}) ORDER BY facet, entries DESC, found`,
    parameters: parts.flatMap(({ parameters }) => [...parameters]),
  };
}
