/** A column of a result, read cell by cell: nothing is made of a row before somebody looks at it. */
import { type ColumnData, type ColumnType, nsOf } from "./column-data.js";

/** A cell as JavaScript has it. Timestamps, dates, times and durations are nanoseconds. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | readonly Value[]
  | { readonly [name: string]: Value };

const dayNs = 86_400_000_000_000n;
const decoder = new TextDecoder();

/** Grows while its query runs. Rows are counted over all batches. */
export class Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly #parts: ColumnData[] = [];
  /** The first row of each part. */
  readonly #begins: number[] = [];
  #length = 0;
  /** The part looked at last: rows are mostly read in order. */
  #last = 0;

  constructor(name: string, type: ColumnType) {
    this.name = name;
    this.type = type;
  }

  /** The batches, in their order. */
  get parts(): readonly ColumnData[] {
    return this.#parts;
  }

  get length(): number {
    return this.#length;
  }

  append(part: ColumnData): void {
    this.#begins.push(this.#length);
    this.#parts.push(part);
    this.#length += part.length;
  }

  /** The cell; null beyond the end. Integers that a number cannot hold are bigints. */
  value(row: number): Value {
    const part = this.#find(row);
    return part === null ? null : valueAt(this.type, part, row - (this.#begins[this.#last] ?? 0));
  }

  /** For charts and sums: NaN where there is no number. Timestamps and dates are milliseconds, durations nanoseconds. */
  number(row: number): number {
    const value = this.value(row);
    const { kind } = this.type;
    if (typeof value === "bigint") {
      return kind === "timestamp" || kind === "date" ? Number(value / 1000n) / 1000 : Number(value);
    }
    if (typeof value === "string") {
      return kind === "decimal" ? Number(value) : Number.NaN;
    }
    return typeof value === "number" || typeof value === "boolean" ? Number(value) : Number.NaN;
  }

  /** For names and labels: what it is, unformatted; the empty text for null. */
  text(row: number): string {
    const value = this.value(row);
    return value === null ? "" : keyText(value);
  }

  /** The part that holds a row, which becomes the last one. */
  #find(row: number): ColumnData | null {
    if (row < 0 || row >= this.#length) {
      return null;
    }
    const begin = this.#begins[this.#last] ?? 0;
    const part = this.#parts[this.#last];
    if (part !== undefined && row >= begin && row < begin + part.length) {
      return part;
    }
    let low = 0;
    let high = this.#begins.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#begins[middle] ?? 0) <= row) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    this.#last = low;
    return this.#parts[low] ?? null;
  }
}

/** Whether a cell has no value. */
export function isNull({ validity }: ColumnData, i: number): boolean {
  return validity !== null && ((validity[i >> 3] ?? 0) & (1 << (i & 7))) === 0;
}

function valueAt(type: ColumnType, data: ColumnData, i: number): Value {
  if (isNull(data, i)) {
    return null;
  }
  const { values } = data;
  switch (type.kind) {
    case "null":
    case "unknown":
      return null;
    case "bool":
      return bitAt(data, i);
    case "float":
      return Number(values?.[i]);
    case "int":
      return small(values?.[i] ?? 0);
    case "decimal":
      return decimal(values as Uint32Array, i, type.words, type.scale);
    case "timestamp":
      return BigInt(values?.[i] ?? 0) * nsOf[type.unit];
    case "time":
    case "duration":
      return BigInt(values?.[i] ?? 0) * nsOf[type.unit];
    case "date":
      return BigInt(values?.[i] ?? 0) * (type.unit === "day" ? dayNs : nsOf.ms);
    case "interval":
      return interval(values as Int32Array, i, type.unit);
    case "text":
      return decoder.decode(bytesAt(data, i));
    case "bytes":
      return bytesAt(data, i);
    case "dictionary":
      return inParts(type.values, data.dictionary ?? [], Number(values?.[i]));
    case "list": {
      const [begin, end] = type.fixedSize === null ? bounds(data, i) : [i * type.fixedSize, (i + 1) * type.fixedSize];
      return items(type.item, data.children[0], begin, end);
    }
    case "struct":
      return Object.fromEntries(
        type.fields.map((field, child) => [field.name, childValue(field.type, data.children[child], i)]),
      );
    case "map": {
      const [begin, end] = bounds(data, i);
      const entries = data.children[0];
      const keys = items(type.key, entries?.children[0], begin, end);
      const mapped = items(type.value, entries?.children[1], begin, end);
      return Object.fromEntries(keys.map((key, at) => [keyText(key), mapped[at] ?? null]));
    }
  }
}

/** Null for what is no text. */
export const textValue = (value: Value): string | null => (typeof value === "string" ? value : null);
/** Nanoseconds; 0 for what is no time. */
export const timeValue = (value: Value): bigint => (typeof value === "bigint" ? value : 0n);

/** What names things is text or a number, as good as always. */
export function keyText(key: Value): string {
  return typeof key === "object" ? JSON.stringify(key) : String(key);
}

function childValue(type: ColumnType, data: ColumnData | undefined, i: number): Value {
  return data === undefined ? null : valueAt(type, data, i);
}

function items(type: ColumnType, data: ColumnData | undefined, begin: number, end: number): Value[] {
  return Array.from({ length: end - begin }, (_, at) => childValue(type, data, begin + at));
}

function inParts(type: ColumnType, parts: readonly ColumnData[], i: number): Value {
  const found = partAt(parts, i);
  return found === null ? null : valueAt(type, ...found);
}

/** The part of a dictionary that has a value, and where in it. */
export function partAt(parts: readonly ColumnData[], i: number): [part: ColumnData, at: number] | null {
  let at = i;
  for (const part of parts) {
    if (at < part.length) {
      return [part, at];
    }
    at -= part.length;
  }
  return null;
}

/** A cell of booleans. */
export function bitAt({ values }: ColumnData, i: number): boolean {
  return ((Number(values?.[i >> 3]) >> (i & 7)) & 1) === 1;
}

/** Where the items of a cell of lists, maps, texts or bytes begin and end. */
export function bounds({ offsets }: ColumnData, i: number): [number, number] {
  return [Number(offsets?.[i] ?? 0), Number(offsets?.[i + 1] ?? 0)];
}

/** A cell of texts or bytes, as it is in memory. */
export function bytesAt(data: ColumnData, i: number): Uint8Array {
  const [begin, end] = bounds(data, i);
  return (data.values as Uint8Array).subarray(begin, end);
}

function small(value: number | bigint): number | bigint {
  return typeof value === "bigint" && value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER
    ? Number(value)
    : value;
}

/** A decimal without its point. */
export function unscaled(words: Uint32Array, i: number, count: number): bigint {
  let value = 0n;
  for (let at = count - 1; at >= 0; at--) {
    value = (value << 32n) | BigInt(words[i * count + at] ?? 0);
  }
  return BigInt.asIntN(count * 32, value);
}

/** Whole ones as integers, others as text with their digits. */
function decimal(words: Uint32Array, i: number, count: number, scale: number): number | bigint | string {
  const value = unscaled(words, i, count);
  if (scale === 0) {
    return small(value);
  }
  const digits = (value < 0n ? -value : value).toString().padStart(scale + 1, "0");
  return `${value < 0n ? "-" : ""}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

function interval(values: Int32Array, i: number, unit: "months" | "day-time" | "month-day-nano"): string {
  if (unit === "months") {
    return `${values[i] ?? 0} months`;
  }
  if (unit === "day-time") {
    return `${values[i * 2] ?? 0} days ${(values[i * 2 + 1] ?? 0) / 1000} s`;
  }
  const at = i * 4;
  const ns = (BigInt(values[at + 3] ?? 0) << 32n) | BigInt((values[at + 2] ?? 0) >>> 0);
  return `${values[at] ?? 0} months ${values[at + 1] ?? 0} days ${Number(ns) / 1e9} s`;
}
