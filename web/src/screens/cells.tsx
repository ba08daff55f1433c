/** Cells as people see them. Each runs its own query, and runs it again when a variable or the time range changes. */
import { Link } from "@tanstack/react-router";
import { type ReactElement, useId, useMemo, useState } from "react";

import type { Column } from "../arrow/column.js";
import type { QueryResult } from "../api/query.js";
import { absoluteRange } from "../ui/time-range.js";
import { useSettings } from "../app/settings.js";
import { useTimeRange } from "../app/time-range-context.js";
import { type ChartData, isTime, rangeOfDays, toSeries } from "../ui/chart/series.js";
import { TimeChart } from "../ui/chart/time-chart.js";
import { unitOf } from "../ui/chart/units.js";
import { levelColour } from "../ui/colours.js";
import { Input, Select } from "../ui/controls/controls.js";
import { formatNumber } from "../ui/format.js";
import { LevelBadge } from "../ui/level.js";
import { Banner, EmptyState } from "../ui/states.js";
import { cellText, isNumeric, type TableColumn } from "../ui/table/table-columns.js";
import { type CellContext, noColumns, QueryPart, ResultTable, useCellQuery } from "./cell-query.js";
import { MapView } from "./map/map-cell.js";
import { Markdown } from "./markdown.js";
import css from "./screen.module.css";
import { choicesOf } from "./variables.js";
import type { Cell, ChartCell, LeafCell, LogCell, TableCell, TraceCell, VariableCell } from "./screen-model.js";

export function CellView({ cell, context }: { readonly cell: Cell; readonly context: CellContext }): ReactElement {
  if (cell.kind === "group") {
    return (
      <div className={css.group}>
        {cell.cells.map((each) => (
          <LeafView key={each.id} cell={each} context={context} />
        ))}
      </div>
    );
  }
  return <LeafView cell={cell} context={context} />;
}

function LeafView({ cell, context }: { readonly cell: LeafCell; readonly context: CellContext }): ReactElement {
  switch (cell.kind) {
    case "markdown":
      return <Markdown text={cell.text} />;
    case "chart":
      return <ChartView cell={cell} context={context} />;
    case "table":
      return <TableView cell={cell} context={context} />;
    case "log":
      return <LogView cell={cell} context={context} />;
    case "trace":
      return <TraceView cell={cell} context={context} />;
    case "map":
      return <MapView key={cell.file} cell={cell} context={context} />;
    case "variable":
      return <VariableView cell={cell} context={context} />;
  }
}

function ChartView({ cell, context }: { readonly cell: ChartCell; readonly context: CellContext }): ReactElement {
  const { resolved, setRange } = useTimeRange();
  useSettings(); // days begin where the zone says
  const query = useCellQuery(cell.sql, context);
  return (
    <QueryPart title={cell.title} query={query}>
      {(result) => {
        const data = chartOf(result);
        return data === null ? (
          <Banner kind="warn">A chart needs a column of times and one of numbers.</Banner>
        ) : (
          <TimeChart
            title={cell.title}
            data={data}
            range={data.isOfDays ? rangeOfDays(data.times, resolved) : resolved}
            kind={cell.look}
            unit={unitOf(cell.unit)}
            onRange={(range) => setRange(absoluteRange(range))}
            stale={query.state.stale}
          />
        );
      }}
    </QueryPart>
  );
}

/** The first time is the axis; of several numbers each is a series, else the first text tells them apart. */
function chartOf(result: QueryResult): (ChartData & { readonly isOfDays: boolean }) | null {
  const { columns } = result;
  const time = columns.find(isTime);
  const numbers = columns.filter(({ type }) => isNumeric(type));
  const [first] = numbers;
  if (time === undefined || first === undefined) {
    return null;
  }
  const isOfDays = time.type.kind === "date";
  const name = columns.find(({ type }) => type.kind === "text" || type.kind === "dictionary")?.name ?? null;
  if (name !== null || numbers.length === 1) {
    const data = toSeries(result, { time: time.name, value: first.name, name });
    return name === "level_name"
      ? { ...data, isOfDays, series: data.series.map((each) => ({ ...each, colour: levelColour(each.name) })) }
      : { ...data, isOfDays };
  }
  const parts = numbers.map((column) => toSeries(result, { time: time.name, value: column.name, name: null }));
  return {
    isOfDays,
    times: parts[0]?.times ?? new Float64Array(0),
    series: parts.flatMap(({ series: [only] }, i) =>
      only === undefined ? [] : [{ ...only, name: numbers[i]?.name ?? only.name }],
    ),
  };
}

function TableView({ cell, context }: { readonly cell: TableCell; readonly context: CellContext }): ReactElement {
  const query = useCellQuery(cell.sql, context);
  return (
    <QueryPart title={cell.title} query={query}>
      {(result) => <ResultTable label={cell.title} result={result} state={query.state} over={noColumns} />}
    </QueryPart>
  );
}

function LogView({ cell, context }: { readonly cell: LogCell; readonly context: CellContext }): ReactElement {
  const where = cell.where.trim() === "" ? "true" : cell.where;
  const sql = `SELECT time, level_name, service_name, msg FROM log_entries WHERE (${where}\n) ORDER BY time DESC LIMIT 500`;
  const query = useCellQuery(sql, context);
  return (
    <QueryPart title={cell.title} query={query}>
      {(result) => <ResultTable label={cell.title} result={result} state={query.state} over={levelColumn} />}
    </QueryPart>
  );
}

function levelColumn(result: QueryResult): Readonly<Record<string, Partial<TableColumn>>> {
  const level = result.columns.find(({ name }) => name === "level_name");
  return { level_name: { title: "level", width: 90, cell: (row) => <LevelBadge level={textAt(level, row)} /> } };
}

const textAt = (column: Column | undefined, row: number): string =>
  column === undefined ? "" : (cellText(column.value(row), column.type) ?? "");

const treeSql = (trace: string): string =>
  `SELECT depth, name, service_name, start_ms, duration_ms, self_ms, status FROM trace_tree(${trace})`;

function TraceView({ cell, context }: { readonly cell: TraceCell; readonly context: CellContext }): ReactElement {
  const { values, ...rest } = context;
  const named = /^\$([A-Za-z_]\w*)$/.exec(cell.trace.trim())?.[1];
  const trace = named === undefined ? cell.trace.trim() : String(values.get(named) ?? "");
  const isId = /^[0-9a-f]{32}$/i.test(trace);
  const query = useCellQuery(isId ? treeSql("$svc_trace") : "", {
    ...rest,
    values: useMemo(() => new Map([...values, ["svc_trace", trace]]), [values, trace]),
  });
  return (
    <>
      <QueryPart title={cell.title} query={query}>
        {(result) => <ResultTable label={cell.title} result={result} state={query.state} over={treeColumns} />}
      </QueryPart>
      {isId ? (
        <Link to={`/traces/${trace}`}>Open the trace {trace}</Link>
      ) : (
        <EmptyState title={cell.title}>
          {named === undefined ? "This cell needs a trace id." : `Choose a trace: $${named} is no trace id.`}
        </EmptyState>
      )}
    </>
  );
}

function treeColumns(result: QueryResult): Readonly<Record<string, Partial<TableColumn>>> {
  const find = (name: string) => result.columns.find((column) => column.name === name);
  const depth = find("depth");
  const name = find("name");
  return {
    name: {
      width: 320,
      cell: (row) => (
        <span style={{ paddingLeft: Math.min(Number(depth?.value(row) ?? 0), 30) * 12 }}>{textAt(name, row)}</span>
      ),
    },
  };
}

function VariableView({ cell, context }: { readonly cell: VariableCell; readonly context: CellContext }): ReactElement {
  const query = useCellQuery(cell.sql, context);
  const label = cell.label === "" ? cell.name : cell.label;
  const value = String(context.values.get(cell.name) ?? "");
  const { result, error } = query.state;
  const [typed, setTyped] = useState<string | null>(null);
  const commit = (): void => {
    if (typed !== null && typed !== value) {
      context.onValue(cell.name, typed);
    }
    setTyped(null);
  };
  const found = useMemo(() => choicesOf(result), [result]);
  const offered = found.slice(0, maxChoices);
  const all = `${formatNumber(found.length)}${query.state.summary?.cut === true ? " or more" : ""}`;
  const more = found.length > maxChoices ? `${maxChoices} of ${all} values are offered; type any` : null;
  const list = useId();
  return (
    <div className={css.variable}>
      <span className={css.label}>{label}</span>
      {cell.sql.trim() === "" || error !== null || more !== null ? (
        <Input
          aria-label={label}
          aria-describedby={more === null ? undefined : `${list}-more`}
          list={list}
          placeholder={more === null ? undefined : "All"}
          value={typed ?? value}
          inputMode={cell.type === "number" ? "decimal" : "text"}
          onChange={({ target }) => setTyped(target.value)}
          onBlur={commit}
          onKeyDown={({ key, nativeEvent }) => {
            if (key === "Enter" && !nativeEvent.isComposing) {
              commit();
            }
          }}
        />
      ) : (
        <Select
          label={label}
          value={value}
          options={[
            { value: "", label: "All" },
            ...(value === "" || offered.some((each) => each.value === value) ? [] : [{ value, label: value }]),
            ...offered.filter((each) => each.value !== ""),
          ]}
          onChange={(next) => context.onValue(cell.name, next)}
        />
      )}
      {more === null ? null : (
        <>
          <datalist id={list}>
            {offered.map((each) => (
              <option key={each.value} {...each} />
            ))}
          </datalist>
          <span id={`${list}-more`} className={css.hint}>
            {more}
          </span>
        </>
      )}
    </div>
  );
}

/** Most values that are offered. */
const maxChoices = 500;
