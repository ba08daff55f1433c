/**
 * The tables behind a translated statement: objects as views of a session, and our own views over them, translated as
 * any other text. Audience, process, trace and time are conditions of ours in here, whatever the statement says.
 */
import { columnsOfTable } from "../../lake/tables/duckdb-types.js";
import { attributePlaces } from "../../lake/catalogue.js";
import { attributeColumnPrefix, isPlainAttribute } from "../../lake/tables/attributes.js";
import type { QuerySources } from "../backend/run.js";
import {
  audienceColumn,
  comparedTime,
  type FileGroup,
  type FileSource,
  neededConditions,
  timeConditions,
} from "../sql/file-source.js";
import { exactTime, type TableRows } from "../sql/file-view.js";
import { fileViews } from "../sql/views.js";
import { LocalOnly, sparkLong, sparkName, sparkText, sparkType, typeOfColumn } from "./spark-types.js";
import type { TranslatedColumn, TranslatedQuery } from "./translate.js";

/** How a cluster reads times of objects, which have nanoseconds. */
export type TimeReading = "number" | "timestamp";

/** Objects that one view of the session shows. */
export interface ObjectView {
  readonly name: string;
  readonly paths: readonly string[];
}

/** A view of ours that has to be translated. */
interface NamedView {
  /** As the statement calls it. */
  readonly name: string;
  /** DuckDB's SQL over the tables below. */
  readonly sql: string;
}

/** What a statement reads. */
interface ClusterSources {
  readonly objects: readonly ObjectView[];
  /** Rows of tables of the lake, by the names that {@link NamedView} has for them. */
  readonly tables: ReadonlyMap<string, TranslatedQuery>;
  readonly views: readonly NamedView[];
}

/** @throws LocalOnly for rows that are not in objects */
export function clusterSources({ files, rows }: QuerySources, times: TimeReading): ClusterSources {
  const [row] = rows;
  if (row !== undefined) {
    throw new LocalOnly(`${row.name}, whose rows are in the catalogue`);
  }
  const objects: ObjectView[] = [];
  const tables = new Map<string, TranslatedQuery>();
  const views = files.map(({ name, view, sources }): NamedView => {
    const definition = fileViews[view];
    const [first] = sources;
    if (definition.sampledRows !== undefined) {
      throw new LocalOnly(`${view}, which has rows by chance`);
    }
    const made = definition.tables.map((table, i): TableRows => {
      const source = sources[i];
      if (source === undefined) {
        throw new LocalOnly(`${view} without its tables`);
      }
      const stand = `svc_rows_${tables.size}`;
      const needed = definition.time === exactTime ? [] : neededConditions(source);
      tables.set(stand, tableRows(columnsOfTable(table), source, times, objects));
      return (which) => {
        const all = [...needed, ...(which === "inRange" ? timeConditions(first ?? source, "time") : which)];
        return `(SELECT * FROM ${stand}${all.length === 0 ? "" : ` WHERE ${all.join(" AND ")}`})`;
      };
    });
    const [table, ...more] = made;
    if (table === undefined || first === undefined) {
      throw new LocalOnly(`${view}, which reads no table`);
    }
    return { name, sql: definition.sql([table, ...more], timeConditions(first, "time")) };
  });
  return { objects, tables, views };
}

function tableRows(
  columns: readonly (readonly [name: string, type: string])[],
  source: FileSource,
  times: TimeReading,
  objects: ObjectView[],
): TranslatedQuery {
  const all = [
    ...columns,
    audienceColumn,
    ...(source.comparesTime ? [[comparedTime, "TIMESTAMP_NS"] as const] : []),
    ...source.attributes.map(({ column }) => [column, "VARCHAR"] as const),
  ].map(([name, type]): TranslatedColumn => ({ name, spark: name, type: typeOfColumn(type) }));
  const known = all.filter(({ type }) => type !== "foreign");
  const stored = new Set(columns.map(([name]) => name));
  const select = (
    { audience, paths, attributes: places = "" }: FileGroup,
    traces: readonly string[] | null,
  ): string => {
    const view = `svc_objects_${objects.length}`;
    objects.push({ name: view, paths });
    const items = known.map(({ spark, type }) => {
      const own = source.attributes.findIndex(({ column }) => column === spark);
      const name = sparkName(spark);
      if (spark === comparedTime) {
        return `${nanoseconds("`time`", times)} AS ${name}`;
      }
      if (stored.has(spark)) {
        return `${type === "time" ? nanoseconds(name, times) : name} AS ${name}`;
      }
      const value = own < 0 ? sparkText(audience) : attributeSql(source.attributes[own]?.attribute ?? "", places[own]);
      return `${value} AS ${name}`;
    });
    const conditions = [
      ...(traces === null ? [] : [`trace_id IN (${traces.map(sparkText).join(", ")})`]),
      ...(source.processId === null ? [] : [`process_id = ${sparkText(source.processId)}`]),
      ...(source.traceId === null ? [] : [`trace_id = ${sparkText(source.traceId)}`]),
      // Where row groups are chosen by it; the exact bounds follow in the view.
      ...(source.firstNeededNs === null ? [] : [`\`time\` >= ${timeLiteral(source.firstNeededNs, times, 0n)}`]),
      ...(source.lastNeededNs === null ? [] : [`\`time\` <= ${timeLiteral(source.lastNeededNs, times, 1n)}`]),
    ];
    return `SELECT ${items.join(", ")} FROM ${view}${conditions.length === 0 ? "" : ` WHERE ${conditions.join(" AND ")}`}`;
  };
  const traces = source.byTrace?.traceIds ?? null;
  const selects = [
    ...source.groups.map((group) => select(group, traces)),
    ...(source.byTrace?.groups ?? []).map((group) => select(group, traces)),
  ];
  const none = `SELECT ${known
    .map(({ spark, type }) => `CAST(NULL AS ${sparkType(type)}) AS ${sparkName(spark)}`)
    .join(", ")} FROM (SELECT 1 AS c) AS t WHERE false`;
  // What may not be named stays in the list of columns, so that nothing else is found by its name.
  return { sql: selects.length === 0 ? none : selects.join(" UNION ALL "), columns: all };
}

function nanoseconds(name: string, times: TimeReading): string {
  return times === "number" ? name : `(unix_micros(${name}) * 1000L + pmod(date_part('nanosecond', ${name}), 1000L))`;
}

/** @param later whole microseconds are added, so that none is missed */
function timeLiteral(ns: bigint, times: TimeReading, later: bigint): string {
  if (times === "number") {
    return sparkLong(ns);
  }
  const micros = (ns - (((ns % 1000n) + 1000n) % 1000n)) / 1000n + later;
  const ms = (micros - (((micros % 1000n) + 1000n) % 1000n)) / 1000n;
  const date = new Date(Number(ms));
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1 || date.getUTCFullYear() > 9999) {
    throw new LocalOnly("a time that is not within the years 1 to 9999");
  }
  const text = date.toISOString().replace("T", " ").replace("Z", "");
  return `TIMESTAMP_NTZ '${text}${String(micros - ms * 1000n).padStart(3, "0")}'`;
}

function attributeSql(attribute: string, place: string | undefined): string {
  if (!isPlainAttribute(attribute)) {
    throw new TypeError("the name of an attribute is none that may be a column");
  }
  if (place === attributePlaces.column) {
    return sparkName(`${attributeColumnPrefix}${attribute}`);
  }
  return place === attributePlaces.nowhere
    ? "CAST(NULL AS STRING)"
    : `get_json_object(properties, ${sparkText(`$['${attribute}']`)})`;
}
