/** Sorts rows without an object for any of them. */

type Key = string | number | bigint | null;

/**
 * Row numbers in order; rows without a value come last, rows with the same keep their order.
 * @param keyOf of a row; all are of one kind.
 */
export function sortRows(rows: number, keyOf: (row: number) => Key, descending: boolean): Uint32Array {
  const order = new Uint32Array(rows);
  const first = firstKey(rows, keyOf);
  const sign = descending ? -1 : 1;
  for (let row = 0; row < rows; row++) {
    order[row] = row;
  }
  if (typeof first === "number" || typeof first === "bigint") {
    const keys = new Float64Array(rows);
    // What a double leaves out of an integer, such as the last digits of a time in nanoseconds.
    const rests = new Float64Array(rows);
    for (let row = 0; row < rows; row++) {
      const key = keyOf(row);
      const rounded = key === null ? Number.NaN : Number(key);
      keys[row] = rounded;
      rests[row] = typeof key === "bigint" ? Number(key - BigInt(rounded)) : 0;
    }
    return order.sort((a, b) => {
      const left = keys[a] ?? Number.NaN;
      const right = keys[b] ?? Number.NaN;
      return left < right
        ? -sign
        : left > right
          ? sign
          : Number(left !== left) - Number(right !== right) || sign * ((rests[a] ?? 0) - (rests[b] ?? 0)) || a - b;
    });
  }
  const keys = Array.from({ length: rows }, (_, row) => keyOf(row));
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  return order.sort((a, b) => {
    const left = keys[a] ?? null;
    const right = keys[b] ?? null;
    if (left === null || right === null) {
      return Number(left === null) - Number(right === null) || a - b;
    }
    return sign * compare(String(left), String(right)) || a - b;
  });
}

function firstKey(rows: number, keyOf: (row: number) => Key): Key {
  for (let row = 0; row < rows; row++) {
    const key = keyOf(row);
    if (key !== null) {
      return key;
    }
  }
  return null;
}
