/** The rows of one lake table for one audience, while a segment is built. */
import type { Column, RunColumn, Utf8Column } from "../../lake/tables/columns.js";
import { freeHuge } from "../../runtime/free-buffer.js";
import { type ColumnsOf, createColumns, type TableName, tables } from "../../lake/tables/tables.js";

/** Columns that every table has: who sent the row, and through which scope. */
interface CommonColumns {
  readonly target: RunColumn;
  readonly scope_version: RunColumn;
  readonly scope_properties: RunColumn;
  readonly scope_dropped_attributes_count: RunColumn;
  readonly scope_schema_url: RunColumn;
  readonly process_id: RunColumn;
  readonly stream_id: RunColumn;
  readonly block_id: RunColumn;
  readonly insert_time: RunColumn;
  readonly service_namespace: RunColumn;
  readonly service_name: RunColumn;
  readonly service_instance_id: RunColumn;
  readonly service_version: RunColumn;
  readonly host_name: RunColumn;
  readonly process_properties: RunColumn;
  readonly resource_schema_url: RunColumn;
  readonly resource_dropped_attributes_count: RunColumn;
  readonly resource_entity_refs: RunColumn;
}

/** Builders of one table, and what is remembered about their dictionaries. */
export class TableState<T extends TableName = TableName> {
  readonly name: T;
  readonly columns: ColumnsOf<(typeof tables)[T]>;
  readonly common: CommonColumns;
  /** Counts resets: dictionary indexes remembered from an earlier generation mean nothing. */
  generation = 0;
  /** Columns of a scope's values; see resource.ts. */
  readonly scopeColumns: readonly RunColumn[];
  /** Columns of a process's values; see identity.ts. */
  readonly processColumns: readonly RunColumn[];
  /** Columns whose text the scanner writes, in the order of the plan for the table; null until the first row. */
  texts: readonly Utf8Column[] | null = null;
  /** Index of the segment's insert_time in its dictionary, -1 until it is known. */
  insertTimeIndex = -1;
  /** Index of each kind of body in the dictionary of body_type, -1 until it is known (log_entries). */
  readonly bodyTypes = new Int32Array(8).fill(-1);
  readonly #all: readonly Column[];

  constructor(name: T) {
    this.name = name;
    this.columns = createColumns(tables[name]) as ColumnsOf<(typeof tables)[T]>;
    const common = this.columns as unknown as CommonColumns;
    this.common = common;
    this.scopeColumns = [
      common.target,
      common.scope_version,
      common.scope_properties,
      common.scope_dropped_attributes_count,
    ];
    this.processColumns = [
      common.process_id,
      common.stream_id,
      common.service_namespace,
      common.service_name,
      common.service_instance_id,
      common.service_version,
      common.host_name,
      common.process_properties,
      common.resource_dropped_attributes_count,
      common.resource_entity_refs,
    ];
    this.#all = Object.values(this.columns) as Column[];
  }

  /** Whole rows so far, and the current row once its time is written. */
  get rows(): number {
    return (this.columns as unknown as { time: Column }).time.rows;
  }

  /** Takes back every row from `rows` on, and whatever of an unfinished one was written. */
  truncate(rows: number): void {
    for (const column of this.#all) {
      column.truncate(rows);
    }
  }

  /** Drops all rows, keeps the memory. */
  reset(): void {
    for (const column of this.#all) {
      column.reset();
    }
    this.generation++;
    this.insertTimeIndex = -1;
    this.bodyTypes.fill(-1);
  }

  /** Memory that the builders hold, in bytes. */
  heldBytes(): number {
    return this.#all.flatMap(buffersOf).reduce((total, buffer) => total + buffer.byteLength, 0);
  }

  /** Frees what is huge of that; the builders are of no use any more. */
  free(): void {
    this.#all.flatMap(buffersOf).forEach(freeHuge);
  }
}

function buffersOf(column: Column): ArrayBufferView[] {
  switch (column.kind) {
    case "int64":
    case "float64":
      return [column.words];
    case "int32":
    case "bool":
      return [column.data];
    case "utf8":
      return [column.bytes, column.ends];
    case "run":
      return [column.runIndex, column.runRows, column.dictionary.bytes];
    case "list":
      return [column.ends, ...Object.values(column.children).flatMap(buffersOf)];
  }
}
