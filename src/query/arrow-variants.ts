/**
 * VARIANT has no counterpart in Arrow, and DuckDB's own Arrow export refuses it. It leaves as JSON text: the
 * query is wrapped in one that casts such columns, wherever in a column's type the VARIANT stands.
 */
import {
  DuckDBArrayType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBUnionType,
} from "@duckdb/node-api";

import { type DuckDBColumn, typeOf } from "./arrow-read.js";
import { quoteName } from "./views.js";

/**
 * Whether a column of a result holds variants.
 * @throws ServiceError BAD_REQUEST as {@link typeOf}
 */
export function needsCast(columns: readonly DuckDBColumn[]): boolean {
  return columns.some((column) => hasVariant(typeOf(column)));
}

/**
 * The query around `sql` that casts its columns which hold variants.
 * @param sql one SELECT, printed from its tree, so that nothing follows it
 */
export function castVariants(sql: string, columns: readonly DuckDBColumn[]): string {
  const types = columns.map((column) => typeOf(column));
  const items = columns.map(({ name }, i) => {
    const type = types[i];
    const place = `#${i + 1}`;
    const value =
      type === undefined || !hasVariant(type)
        ? place
        : // A cast makes the text "null" of a null.
          `CASE WHEN ${place} IS NULL THEN NULL ELSE CAST(${place} AS ${typeSql(type)}) END`;
    return `${value} AS ${quoteName(name)}`;
  });
  return `SELECT ${items.join(", ")} FROM (${sql}) AS svc_variants`;
}

function hasVariant(type: DuckDBType): boolean {
  if (type.typeId === DuckDBTypeId.VARIANT) return true;
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType) {
    return hasVariant(type.valueType);
  }
  if (type instanceof DuckDBStructType) return type.entryTypes.some(hasVariant);
  if (type instanceof DuckDBMapType) return hasVariant(type.keyType) || hasVariant(type.valueType);
  return type instanceof DuckDBUnionType && type.memberTypes.some(hasVariant);
}

/** A type in SQL, with JSON in the place of VARIANT. */
function typeSql(type: DuckDBType): string {
  if (type.typeId === DuckDBTypeId.VARIANT) return "JSON";
  if (type instanceof DuckDBListType) return `${typeSql(type.valueType)}[]`;
  if (type instanceof DuckDBArrayType) return `${typeSql(type.valueType)}[${type.length}]`;
  if (type instanceof DuckDBStructType) {
    return `STRUCT(${members(type.entryNames, type.entryTypes)})`;
  }
  if (type instanceof DuckDBMapType) {
    return `MAP(${typeSql(type.keyType)}, ${typeSql(type.valueType)})`;
  }
  if (type instanceof DuckDBUnionType)
    return `UNION(${members(type.memberTags, type.memberTypes)})`;
  return type.toString();
}

function members(names: readonly string[], types: readonly DuckDBType[]): string {
  return types.map((type, i) => `${quoteName(names[i] ?? "")} ${typeSql(type)}`).join(", ");
}
