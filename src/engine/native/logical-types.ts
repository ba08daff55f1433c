/** Logical types of DuckDB: their numbers, and the types that they are made of. */
import type { Native } from "./connection.js";
import type { Pointer } from "./library.js";

/** Numbers of duckdb_type that code asks for. */
export const typeIds = {
  invalid: 0,
  hugeint: 16,
  decimal: 19,
  list: 24,
  struct: 25,
  map: 26,
  union: 28,
  uhugeint: 32,
  array: 33,
} as const;

/**
 * Types whose values lie in a vector as they do in an Arrow array: integers, floating point numbers, dates, times and
 * timestamps. Not BOOLEAN, whose vectors have a byte for each, nor TIME WITH TIME ZONE.
 */
const sameInArrow: ReadonlySet<number> = new Set([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 21, 22, 31]);

/** Whether the values of a type need no conversion. */
export function isSameInArrow({ duckdb }: Native, type: Pointer): boolean {
  return sameInArrow.has(duckdb.get_type_id(type));
}

/** Whether a type, or one that it is made of, has that number. The type stays its owner's. */
export function holdsType(native: Native, type: Pointer, id: number): boolean {
  const own = native.duckdb.get_type_id(type);
  return own === id || parts(native, type, own).some((part) => holdsPart(native, part(), id));
}

function holdsPart(native: Native, part: Pointer, id: number): boolean {
  try {
    return holdsType(native, part, id);
  } finally {
    native.duckdb.destroy_logical_type(native.memory.box(part));
  }
}

/** Each gives one type that a type is made of, which is the caller's to destroy. */
function parts({ duckdb }: Native, type: Pointer, id: number): (() => Pointer)[] {
  switch (id) {
    case typeIds.list:
      return [() => duckdb.list_type_child_type(type)];
    case typeIds.array:
      return [() => duckdb.array_type_child_type(type)];
    case typeIds.map:
      return [() => duckdb.map_type_key_type(type), () => duckdb.map_type_value_type(type)];
    case typeIds.struct:
      return Array.from(
        { length: Number(duckdb.struct_type_child_count(type)) },
        (_, i) => () => duckdb.struct_type_child_type(type, i),
      );
    case typeIds.union:
      return Array.from(
        { length: Number(duckdb.union_type_member_count(type)) },
        (_, i) => () => duckdb.union_type_member_type(type, i),
      );
    default:
      return [];
  }
}
