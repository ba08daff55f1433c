/** What a server can be asked about itself: catalogs, schemas, tables, columns, SqlInfo. */
import type { CellValue } from "../values/arrow-values.js";
import { encodeSqlMessage } from "./flight-messages.js";
import type { QueryResult } from "./query-result.js";

/** A table or view. */
export interface TableInfo {
  readonly catalog: string | null;
  readonly schema: string | null;
  readonly name: string;
  /** For example `VIEW`. */
  readonly type: string;
}

/** A column. */
export interface ColumnInfo {
  readonly name: string;
  /** Its Arrow type, for example `Timestamp<NANOSECOND>`. */
  readonly type: string;
  readonly nullable: boolean;
}

/** Narrows a list of tables; patterns are those of SQL's LIKE. */
export interface TableFilter {
  readonly catalog?: string;
  readonly schemaPattern?: string;
  readonly tablePattern?: string;
  readonly types?: readonly string[];
}

/** Everything throws FlightSqlError. */
export interface Metadata {
  catalogs(): Promise<string[]>;
  /** Names of schemas, with their catalogs. */
  schemas(): Promise<{ readonly catalog: string | null; readonly schema: string }[]>;
  tables(filter?: TableFilter): Promise<TableInfo[]>;
  /** Columns of one table or view; empty when there is none of that name. */
  columns(table: string): Promise<ColumnInfo[]>;
  /** `GetSqlInfo` by number; without numbers, everything that the server tells. */
  sqlInfo(...ids: number[]): Promise<Map<number, CellValue>>;
}

/** @param run runs a command and gives its result */
export function metadataOf(run: (command: Uint8Array) => Promise<QueryResult>): Metadata {
  const rows = async (command: Uint8Array): Promise<Readonly<Record<string, CellValue>>[]> => {
    const all: Readonly<Record<string, CellValue>>[] = [];
    for await (const row of (await run(command)).rows()) {
      all.push(row);
    }
    return all;
  };
  return {
    async catalogs() {
      return (await rows(encodeSqlMessage("CommandGetCatalogs", {}))).map((row) => textOf(row["catalog_name"]) ?? "");
    },
    async schemas() {
      return (await rows(encodeSqlMessage("CommandGetDbSchemas", {}))).map((row) => ({
        catalog: textOf(row["catalog_name"]),
        schema: textOf(row["db_schema_name"]) ?? "",
      }));
    },
    async tables(filter = {}) {
      return (await rows(tablesCommand(filter, false))).map((row) => ({
        catalog: textOf(row["catalog_name"]),
        schema: textOf(row["db_schema_name"]),
        name: textOf(row["table_name"]) ?? "",
        type: textOf(row["table_type"]) ?? "",
      }));
    },
    async columns(table) {
      const pattern = table.replaceAll(/[\\%_]/g, "\\$&");
      const [found] = await rows(tablesCommand({ tablePattern: pattern }, true));
      const { readSchema } = await import("./schema-message.js");
      const schema = readSchema(Buffer.from(textOf(found?.["table_schema"]) ?? "", "hex"));
      return (schema?.fields ?? []).map(({ name, type, nullable }) => ({ name, type: String(type), nullable }));
    },
    async sqlInfo(...ids) {
      const found = await rows(encodeSqlMessage("CommandGetSqlInfo", { 1: ids }));
      return new Map(found.map((row) => [Number(row["info_name"]), row["value"] ?? null]));
    },
  };
}

function tablesCommand(filter: TableFilter, withSchema: boolean): Uint8Array {
  return encodeSqlMessage("CommandGetTables", {
    1: filter.catalog,
    2: filter.schemaPattern,
    3: filter.tablePattern,
    4: filter.types,
    5: withSchema,
  });
}

function textOf(value: CellValue | undefined): string | null {
  return typeof value === "string" ? value : null;
}
