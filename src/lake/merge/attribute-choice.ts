/** Which attributes of the rows that are merged get columns of their own. Pure. */
import { isPlainAttribute, type ObjectAttributes } from "../tables/attributes.js";

/** Most columns of an object. */
const maxColumns = 64;
/** Most names that the catalogue keeps for an object. */
const maxNames = 256;
/** Longest name that it keeps, in UTF-16 code units. */
const maxNameLength = 255;
/** A column is worth its place when one of so many rows has the attribute. */
const oneOfRows = 200;

/** Semantic conventions that people ask for by name; they come first when there are too many. */
const preferred: ReadonlySet<string> = new Set([
  "http.route",
  "http.request.method",
  "http.response.status_code",
  "url.path",
  "db.system",
  "db.system.name",
  "db.operation.name",
  "error.type",
  "exception.type",
  "messaging.system",
  "messaging.destination.name",
  "rpc.system",
  "rpc.method",
  "server.address",
  "user.id",
  "session.id",
]);

/** How often an attribute occurs in rows that were counted. */
interface AttributeCount {
  readonly name: string;
  readonly rows: number;
}

/** Rows that know their attributes already, because they were merged before. */
export interface KnownAttributes extends ObjectAttributes {
  readonly rowCount: number;
}

/**
 * Chooses among what was counted in some rows, and what others know.
 * @param countedRows rows that were counted
 */
export function chooseAttributes(
  counts: readonly AttributeCount[],
  countedRows: number,
  known: readonly KnownAttributes[],
): ObjectAttributes {
  const rows = new Map<string, number>();
  const add = (name: string, more: number): void => {
    rows.set(name, (rows.get(name) ?? 0) + more);
  };
  for (const one of counts) {
    add(one.name, one.rows);
  }
  for (const { columns, names, rowCount } of known) {
    for (const name of names ?? []) {
      add(name, 0);
    }
    // How many rows have it is not known any more; it was enough of them.
    for (const name of columns) {
      add(name, rowCount);
    }
  }
  const allRows = known.reduce((sum, { rowCount }) => sum + rowCount, countedRows);
  const often = [...rows]
    .filter(([name, count]) => count * oneOfRows >= allRows && isPlainAttribute(name))
    .toSorted(
      ([a, aRows], [b, bRows]) =>
        Number(preferred.has(b)) - Number(preferred.has(a)) || bRows - aRows || (a < b ? -1 : 1),
    );
  const columns: string[] = [];
  // DuckDB does not tell capital letters apart.
  const folded = new Set<string>();
  for (const [name] of often) {
    if (columns.length < maxColumns && !folded.has(name.toLowerCase())) {
      folded.add(name.toLowerCase());
      columns.push(name);
    }
  }
  const complete = canKeep([...rows.keys()]) && known.every(({ names }) => names !== null);
  return { columns: columns.toSorted(), names: complete ? [...rows.keys()].toSorted() : null };
}

/** Whether the catalogue keeps these names. Postgres has no text with U+0000, which attributes may well have. */
function canKeep(names: readonly string[]): boolean {
  return names.length <= maxNames && names.every((name) => name.length <= maxNameLength && !name.includes("\u0000"));
}

/** Counts beyond this are those of names that the catalogue would not keep, and too rare for columns. */
export const maxCounts = 4096;

/** What an object tells that is joined of others, all of which have the same columns. */
export function joinAttributes(
  sources: readonly {
    readonly attributeColumns: readonly string[] | null;
    readonly attributeNames: readonly string[] | null;
  }[],
): ObjectAttributes {
  const names = new Set(sources.flatMap(({ attributeNames }) => attributeNames ?? []));
  const complete = canKeep([...names]) && sources.every(({ attributeNames }) => attributeNames !== null);
  return { columns: sources[0]?.attributeColumns ?? [], names: complete ? [...names].toSorted() : null };
}
