/** The metadata commands of Flight SQL (FlightSql.proto): their schemas, which are the standard's, and their rows. */
import type { ArrowValue } from "../../../query/arrow/arrow-values.js";
import { ServiceError } from "../../../runtime/errors.js";
import { catalogName, schemaName, tableType } from "../../../query/sql/catalog-names.js";
import type { QueryService } from "../../../query/query-service.js";
import type { QueryCaller } from "../../../query/statement.js";
import type { ViewName } from "../../../query/sql/views.js";
import {
  type ArrowField,
  type ArrowType,
  encapsulateMessage,
  encodeSchemaMessage,
} from "../../../wire/flight/flight-arrow.js";
import { type AnyMessage, flightSqlNames } from "../../../wire/flight/flight-protobuf.js";
import {
  checkTextFields,
  decodeGetDbSchemas,
  decodeGetSqlInfo,
  decodeGetTables,
  decodeGetXdbcTypeInfo,
  type GetTables,
} from "../../../wire/flight/flight-sql-commands.js";
import { columnType } from "./column-types.js";
import { sqlInfo, sqlInfoValueField } from "./sql-info.js";
import { xdbcTypeFields, xdbcTypes } from "./xdbc-types.js";

/** What a metadata command answers. */
export interface MetadataResult {
  readonly fields: readonly ArrowField[];
  readonly rows: (signal: AbortSignal) => Promise<ArrowValue[][]>;
}

/**
 * The answer to a metadata command, null when it is none.
 * @throws ServiceError BAD_REQUEST
 */
export function metadataResult(queries: QueryService, caller: QueryCaller, command: AnyMessage): MetadataResult | null {
  switch (command.name) {
    case flightSqlNames.getCatalogs:
      checkTextFields(command.value, 0);
      return result([field("catalog_name", "utf8", false)], [[catalogName]]);
    case flightSqlNames.getDbSchemas: {
      const { catalog, schemaPattern } = decodeGetDbSchemas(command.value);
      const found = isSchema(catalog, schemaPattern) ? [[catalogName, schemaName]] : [];
      return result([field("catalog_name"), field("db_schema_name", "utf8", false)], found);
    }
    case flightSqlNames.getTableTypes:
      checkTextFields(command.value, 0);
      return result([field("table_type", "utf8", false)], [[tableType]]);
    case flightSqlNames.getTables:
      return tables(queries, caller, decodeGetTables(command.value));
    case flightSqlNames.getPrimaryKeys:
      checkTextFields(command.value, 3);
      return result(primaryKeyFields, []);
    case flightSqlNames.getExportedKeys:
    case flightSqlNames.getImportedKeys:
      checkTextFields(command.value, 3);
      return result(foreignKeyFields, []);
    case flightSqlNames.getCrossReference:
      checkTextFields(command.value, 6);
      return result(foreignKeyFields, []);
    case flightSqlNames.getSqlInfo: {
      const ids = new Set(decodeGetSqlInfo(command.value));
      const all = sqlInfo();
      return result(
        [field("info_name", uint32, false), sqlInfoValueField],
        ids.size === 0 ? all : all.filter(([id]) => ids.has(id)),
      );
    }
    case flightSqlNames.getXdbcTypeInfo: {
      const wanted = decodeGetXdbcTypeInfo(command.value);
      return result(xdbcTypeFields, xdbcTypes(wanted));
    }
    default:
      return null;
  }
}

/** Longest pattern: a hundred times the longest name. */
const maxPatternLength = 10_000;

/**
 * A search pattern (FlightSql.proto, CommandGetTables): `%` is any text, `_` any character, and a
 * backslash takes the next one as it is. Names compare regardless of case, as they do in SQL.
 * @throws ServiceError BAD_REQUEST for one that is too long
 */
export function likePattern(pattern: string): (name: string) => boolean {
  if (pattern.length > maxPatternLength) {
    throw new ServiceError("BAD_REQUEST", `A pattern has at most ${maxPatternLength} characters.`);
  }
  const tokens: (string | symbol)[] = [];
  let escaped = false;
  for (const character of pattern.toLowerCase()) {
    if (escaped) {
      tokens.push(character);
    } else if (character === "%") {
      if (tokens.at(-1) !== anyText) {
        tokens.push(anyText);
      }
    } else if (character === "_") {
      tokens.push(anyCharacter);
    } else if (character !== "\\") {
      tokens.push(character);
    }
    escaped = !escaped && character === "\\";
  }
  return (name) => matches(tokens, Array.from(name.toLowerCase()));
}

const anyText = Symbol("%");
const anyCharacter = Symbol("_");

/** Time is at most pattern times name: after a mismatch only the last `%` takes one more character. */
function matches(tokens: readonly (string | symbol)[], name: readonly string[]): boolean {
  let token = 0;
  let at = 0;
  let retry: { readonly token: number; at: number } | null = null;
  while (at < name.length) {
    const wanted = tokens[token];
    if (wanted === anyText) {
      retry = { token: ++token, at };
    } else if (wanted !== undefined && (wanted === anyCharacter || wanted === name[at])) {
      token++;
      at++;
    } else if (retry !== null) {
      at = ++retry.at;
      ({ token } = retry);
    } else {
      return false;
    }
  }
  while (tokens[token] === anyText) {
    token++;
  }
  return token === tokens.length;
}

/**
 * What tools call tables that hold rows themselves. There are none, but Grafana's plugin asks for no other type when it
 * lists what can be queried, and would offer nothing.
 */
const baseTable = "BASE TABLE";

function isSchema(catalog: string | null, schemaPattern: string | null): boolean {
  return (
    (catalog === null || catalog.toLowerCase() === catalogName) &&
    (schemaPattern === null || likePattern(schemaPattern)(schemaName))
  );
}

function tables(queries: QueryService, caller: QueryCaller, o: GetTables): MetadataResult {
  const matchesName = o.tablePattern === null ? () => true : likePattern(o.tablePattern);
  const wanted =
    isSchema(o.catalog, o.schemaPattern) &&
    (o.tableTypes.length === 0 || o.tableTypes.some((type) => type === tableType || type === baseTable));
  const fields = [
    field("catalog_name"),
    field("db_schema_name"),
    field("table_name", "utf8", false),
    field("table_type", "utf8", false),
    ...(o.includeSchema ? [field("table_schema", "binary", false)] : []),
  ];
  const rows = async (signal: AbortSignal): Promise<ArrowValue[][]> => {
    const names = wanted ? await queries.tableNames(caller) : [];
    const found: ArrowValue[][] = [];
    for (const name of names.filter((table) => matchesName(table))) {
      const schema = o.includeSchema ? [await schemaOf(queries, caller, name, signal)] : [];
      found.push([catalogName, schemaName, name, tableType, ...schema]);
    }
    return found;
  };
  return { fields, rows };
}

/** The schema of a table with what tools like to know of its columns. */
async function schemaOf(
  queries: QueryService,
  caller: QueryCaller,
  name: ViewName,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const fields = await queries.describeTable(caller, name, signal);
  return encapsulateMessage(
    encodeSchemaMessage(
      fields.map((column) => ({
        ...column,
        metadata: {
          ...column.metadata,
          "ARROW:FLIGHT:SQL:CATALOG_NAME": catalogName,
          "ARROW:FLIGHT:SQL:DB_SCHEMA_NAME": schemaName,
          "ARROW:FLIGHT:SQL:TABLE_NAME": name,
          ...typeMetadata(column),
          "ARROW:FLIGHT:SQL:IS_AUTO_INCREMENT": "0",
          "ARROW:FLIGHT:SQL:IS_CASE_SENSITIVE": column.type.kind === "utf8" ? "1" : "0",
          "ARROW:FLIGHT:SQL:IS_READ_ONLY": "1",
          "ARROW:FLIGHT:SQL:IS_SEARCHABLE": "1",
        },
      })),
    ),
  );
}

function typeMetadata(column: ArrowField): Record<string, string> {
  const { name, size, scale } = columnType(column);
  return {
    "ARROW:FLIGHT:SQL:TYPE_NAME": name,
    ...(size !== null && { "ARROW:FLIGHT:SQL:PRECISION": String(size) }),
    ...(scale !== null && { "ARROW:FLIGHT:SQL:SCALE": String(scale) }),
  };
}

const uint32: ArrowType = { kind: "int", bits: 32, signed: false };
const uint8: ArrowType = { kind: "int", bits: 8, signed: false };
const int32: ArrowType = { kind: "int", bits: 32, signed: true };

function field(name: string, type: ArrowType | "utf8" | "binary" = "utf8", nullable = true): ArrowField {
  return { name, nullable, type: typeof type === "string" ? { kind: type } : type, children: [] };
}

function result(fields: readonly ArrowField[], rows: ArrowValue[][]): MetadataResult {
  return { fields, rows: () => Promise.resolve(rows) };
}

const primaryKeyFields: readonly ArrowField[] = [
  field("catalog_name"),
  field("db_schema_name"),
  field("table_name", "utf8", false),
  field("column_name", "utf8", false),
  field("key_name"),
  field("key_sequence", int32, false),
];

const foreignKeyFields: readonly ArrowField[] = [
  field("pk_catalog_name"),
  field("pk_db_schema_name"),
  field("pk_table_name", "utf8", false),
  field("pk_column_name", "utf8", false),
  field("fk_catalog_name"),
  field("fk_db_schema_name"),
  field("fk_table_name", "utf8", false),
  field("fk_column_name", "utf8", false),
  field("key_sequence", int32, false),
  field("fk_key_name"),
  field("pk_key_name"),
  field("update_rule", uint8, false),
  field("delete_rule", uint8, false),
];
