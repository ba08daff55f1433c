/** What a view over Parquet objects is: which tables it reads, and the SQL that makes its rows of theirs. */
import type { RowColumns } from "../../lake/tables/duckdb-types.js";
import type { TableName } from "../../lake/tables/tables.js";
import type { AttributeColumn } from "./file-source.js";

/** The columns that rows of a view's tables have beside those of the table. */
export function attributeColumnsOf(attributes: readonly string[]): AttributeColumn[] {
  return attributes.map((attribute, i) => ({ attribute, column: `svc_own_${i}` }));
}

/**
 * SQL of a table's rows in brackets, to stand after FROM: those that meet conditions, which may use its columns, or those
 * in the session's time range.
 */
export type TableRows = (which: readonly string[] | "inRange") => string;

/** Objects whose roll-ups may stand for their rows. */
export type RolledObjects = "whole" | "any";

/** How far the `time` of the rows that are read may lie before and after that of the row that is made of them. */
export interface TimeSlack {
  readonly slackBeforeNs: bigint;
  readonly slackAfterNs: bigint;
}

/**
 * Columns that a view computes, each of one column of its table. Expressions, so that a query that does not name them pays
 * nothing, and DuckDB tests a condition on a name where it reads the column beneath.
 */
export type ComputedColumns = readonly (readonly [name: string, type: string, sql: string, of: string])[];

/** The row has the time of the row that it is made of. */
export const exactTime: TimeSlack = { slackBeforeNs: 0n, slackAfterNs: 0n };

/** The view's `time`, if it has one, says nothing about that of the rows that it reads. */
export const noTime = null;

/**
 * A view over Parquet objects. Its columns `process_id` and `trace_id`, if it has them, are those of all rows that it
 * reads: objects without rows of a wanted process or trace are not opened. A view that puts rows of several processes
 * together has no column `process_id`.
 */
export interface FileViewDefinition {
  /** Tables that it reads; objects of a table that stands here twice are listed twice. */
  readonly tables: readonly TableName[];
  /** What bounds of its `time` say about the rows that it reads; null: nothing. */
  readonly time: TimeSlack | null;
  readonly columns: RowColumns;
  /** Of the rows of one table as they are: what it computes of each. A query gets those columns alone that it reads. */
  readonly computed?: ComputedColumns;
  /** Attributes that its SQL reads as the columns {@link attributeColumnsOf} of its tables' rows. */
  readonly attributes?: readonly string[];
  /**
   * For each of the tables: whether roll-ups (src/lake/rollup) may stand for rows. Of `whole` objects, all of whose rows
   * are wanted: then its SQL does not look at single rows but to tell those that its time range wants. Or of `any`, when
   * the rows of roll-ups have the times that rows of the view have.
   */
  readonly rolledUp?: readonly (RolledObjects | null)[];
  /**
   * Of each table about so many rows by chance, or all when there are no more. They have a column `weight`: how many rows
   * each of them stands for.
   */
  readonly sampledRows?: number;
  /**
   * A SELECT of exactly these columns.
   * @param rows one for each of the tables
   * @param inRange conditions on `time` that the session's time range sets, to be applied to the rows of the view
   * @param rolled one for each of the tables: SQL in brackets of roll-ups with all of whose rows the view is made, which
   *   are not among `rows`; null or absent: there are none
   * @param columns where it has {@link computed}: those that are read; null or absent: any may be
   */
  sql(
    rows: readonly [TableRows, ...TableRows[]],
    inRange: readonly string[],
    rolled?: readonly (string | null)[],
    columns?: readonly string[] | null,
  ): string;
}
