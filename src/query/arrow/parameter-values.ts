/** Values that a client binds, from Arrow columns to text ({@link ParameterValue}). */
import { asBuffer } from "telemetry-service-client/shared/as-buffer";
import { ServiceError } from "../../runtime/errors.js";
import type {
  BytesLayout,
  ReadBatch,
  ReadColumn,
  ReadDictionary,
  ReadField,
  ReadType,
} from "../../wire/flight/flight-arrow-read.js";
import type { ParameterValue } from "../gate/parameters.js";

/** The text of a value, null for NULL. @throws RangeError when the buffers are too short */
type TextReader = (row: number) => string | null;

interface DictionaryPart {
  /** Its first place in the dictionary. */
  readonly start: number;
  readonly rows: number;
  readonly text: TextReader;
}

/** What a value takes in a handle beside its text, at least: `[0,""],`. */
const valueCharacters = 7;

/** The values of a stream of batches: one list per row, in the order of the columns. */
export class BatchValues {
  readonly fields: readonly ReadField[];
  readonly sets: ParameterValue[][] = [];
  /** Texts are read when a row refers to them. */
  readonly #dictionaries = new Map<number, DictionaryPart[]>();
  readonly #maxCharacters: number;
  #characters = 0;

  /**
   * @param maxCharacters of all values in a handle: many rows may refer to the same bytes, and each has its own text;
   *   nulls need no bytes at all
   */
  constructor(fields: readonly ReadField[], maxCharacters: number) {
    this.fields = fields;
    this.#maxCharacters = maxCharacters;
  }

  /** Takes the values of a dictionary, for the batches that follow. @throws ServiceError BAD_REQUEST */
  addDictionary({ id, delta, values }: ReadDictionary): void {
    const field = this.fields.find(({ indices }) => indices?.dictionaryId === id);
    if (field === undefined) {
      throw bad("No column refers to the dictionary.");
    }
    const text = textReader(field.type, values, field.name, this.#maxCharacters);
    const parts = (delta ? this.#dictionaries.get(id) : undefined) ?? [];
    const last = parts.at(-1);
    parts.push({ start: last === undefined ? 0 : last.start + last.rows, rows: values.rows, text });
    this.#dictionaries.set(id, parts);
  }

  /**
   * Takes the rows of a batch.
   * @throws ServiceError BAD_REQUEST when a value does not exist in SQL or the buffers are too short,
   *   PAYLOAD_TOO_LARGE when the texts are too long
   */
  addBatch({ rows, columns }: ReadBatch): void {
    const readers = this.fields.map((field, i) => {
      const column = columns[i];
      if (column === undefined) {
        throw bad(`The column ${shown(field.name)} is missing.`);
      }
      return { field, text: this.#reader(field, column) };
    });
    const read = readers.map(({ field: { name, type }, text }) => {
      const texts = this.#texts(text, rows);
      return { type: duckdbType(type, name, texts), texts };
    });
    for (let row = 0; row < rows; row++) {
      this.sets.push(read.map(({ type, texts }): ParameterValue => ({ type, text: texts[row] ?? null })));
    }
  }

  #texts(text: TextReader, rows: number): (string | null)[] {
    try {
      return Array.from({ length: rows }, (_, row) => this.#count(text(row)));
    } catch (error) {
      if (error instanceof RangeError) {
        throw bad("The buffers of a column are too short.", error);
      }
      throw error;
    }
  }

  #reader({ name, type, indices }: ReadField, column: ReadColumn): TextReader {
    if (indices === null) {
      return textReader(type, column, name, this.#maxCharacters);
    }
    const parts = this.#dictionaries.get(indices.dictionaryId) ?? [];
    const index = textReader(indices.type, column, name, this.#maxCharacters);
    return (row) => {
      const place = index(row);
      return place === null ? null : textAt(parts, Number(place), name);
    };
  }

  #count(text: string | null): string | null {
    this.#characters += valueCharacters + (text?.length ?? 0);
    if (this.#characters <= this.#maxCharacters) {
      return text;
    }
    throw tooLong(this.#maxCharacters);
  }
}

function tooLong(maxCharacters: number): ServiceError {
  return new ServiceError("PAYLOAD_TOO_LARGE", `The values take more than ${maxCharacters} characters as text.`);
}

/** The value at a place of a dictionary that came in parts: each of them may be of one value, or of none. */
function textAt(parts: readonly DictionaryPart[], place: number, name: string): string | null {
  let [low, high] = [0, parts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((parts[middle]?.start ?? 0) > place) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  // The last one that starts there or in front of it.
  const part = parts[low - 1];
  if (part !== undefined && place - part.start < part.rows) {
    return part.text(place - part.start);
  }
  throw bad(`A row of ${shown(name)} refers to a value that its dictionary does not have.`);
}

/** DuckDB's type of a column. @param texts of its values */
function duckdbType(type: ReadType, name: string, texts: readonly (string | null)[]): string {
  switch (type.kind) {
    case "null":
    case "utf8":
    case "uuid": // as in the lake and in results
      return "VARCHAR";
    case "bool":
      return "BOOLEAN";
    case "int": {
      const names: Readonly<Record<number, string>> = {
        8: "TINYINT",
        16: "SMALLINT",
        32: "INTEGER",
        64: "BIGINT",
      };
      const found = names[type.bits];
      if (found === undefined) {
        throw bad(`The column ${shown(name)} holds integers of a strange width.`);
      }
      return type.signed ? found : `U${found}`;
    }
    case "float":
      return type.bits === 64 ? "DOUBLE" : "FLOAT";
    case "binary":
    case "fixed_binary":
      return "BLOB";
    case "decimal":
      // What UHUGEINT is announced as.
      if (type.precision === 39 && type.scale === 0) {
        return "UHUGEINT";
      }
      if (type.precision > 38 || type.scale < 0 || type.scale > type.precision) {
        throw bad(`The decimals of ${shown(name)} are wider than 38 digits, or 39 without fractions.`);
      }
      return `DECIMAL(${type.precision},${type.scale})`;
    case "date":
      if (type.unit === "day") {
        return "DATE";
      }
      // Milliseconds are whole days, says the standard; some clients send a time of day in them nevertheless.
      return texts.every((text) => text?.endsWith(midnight) ?? true) ? "DATE" : "TIMESTAMP_MS";
    case "time":
      return type.unit === nanosecond ? "TIME_NS" : "TIME";
    case "timestamp":
      // With a zone, too: the times of the lake are UTC, and SQL does not compare them with types that have one.
      return type.unit === nanosecond ? "TIMESTAMP_NS" : "TIMESTAMP";
    case "duration":
    case "interval":
      return "INTERVAL";
    case "list": {
      const { item } = type;
      // These are of two types of SQL, by their values; and bytes go by another way than text.
      const unclear = item.kind === "date" && item.unit === "millisecond";
      if (unclear || item.kind === "binary" || item.kind === "fixed_binary") {
        throw bad(`The lists of ${shown(name)} hold values of a type that lists do not take.`);
      }
      return `${duckdbType(item, name, [])}[]`;
    }
  }
}

const nanosecond = 3;
/** Schema.fbs TimeUnit: nanoseconds of each unit. */
const unitNs: readonly bigint[] = [1_000_000_000n, 1_000_000n, 1000n, 1n];
const dayNs = 86_400_000_000_000n;
/** The end of a {@link timeText}. */
const midnight = " 00:00:00.000000000";

function textReader(type: ReadType, column: ReadColumn, name: string, maxCharacters: number): TextReader {
  if (type.kind === "null") {
    return () => null;
  }
  const [validity, second, ...bytes] = column.buffers;
  const values = type.kind === "list" ? (second ?? noBytes) : second;
  if (validity === undefined || values === undefined) {
    throw bad("A column lacks a buffer.");
  }
  // No validity buffer: no nulls (Arrow columnar format, "Validity bitmaps").
  const present = (row: number): boolean =>
    validity.length === 0 || ((validity.at(row >> 3) ?? 0) & (1 << (row & 7))) !== 0;
  const read =
    type.kind === "list"
      ? listReader(type, values, column.items, name, maxCharacters)
      : valueReader(type, values, bytes, name);
  if (validity.length > 0 && validity.length * 8 < column.rows) {
    throw bad("A column is cut short.");
  }
  return (row) => (present(row) ? read(row) : null);
}

/** Most values of a list: nulls need no bytes that would bound them. */
const maxListItems = 100_000;

const noBytes = new Uint8Array();

/** The text of a list as DuckDB casts it: every value quoted. */
function listReader(
  { layout, item }: ReadType & { readonly kind: "list" },
  offsets: Uint8Array,
  items: ReadColumn | null,
  name: string,
  maxCharacters: number,
): (row: number) => string {
  if (items === null) {
    throw bad("A column lacks the values of its lists.");
  }
  const view = new DataView(offsets.buffer, offsets.byteOffset, offsets.byteLength);
  const text = textReader(item, items, name, maxCharacters);
  const at = (row: number): number => {
    if (typeof layout === "number") {
      return row * layout;
    }
    return layout === "offsets64" ? Number(view.getBigInt64(row * 8, true)) : view.getInt32(row * 4, true);
  };
  return (row) => {
    const [from, to] = [at(row), at(row + 1)];
    if (from < 0 || to < from || to > items.rows) {
      throw new RangeError();
    }
    if (to - from > maxListItems) {
      throw bad(`A list of ${shown(name)} has more than ${maxListItems} values.`);
    }
    let characters = 0;
    const texts = Array.from({ length: to - from }, (_, i) => {
      const value = text(from + i);
      // Here, too: one list may refer to the same bytes many times.
      characters += value?.length ?? 0;
      if (characters > maxCharacters) {
        throw tooLong(maxCharacters);
      }
      return value === null ? "NULL" : `"${value.replaceAll(/["\\]/gu, String.raw`\$&`)}"`;
    });
    return `[${texts.join(",")}]`;
  };
}

function valueReader(
  type: Exclude<ReadType, { readonly kind: "list" }>,
  values: Uint8Array,
  bytes: readonly Uint8Array[],
  name: string,
): (row: number) => string {
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  switch (type.kind) {
    case "null":
      return () => "";
    case "bool":
      return (row) => ((view.getUint8(row >> 3) & (1 << (row & 7))) === 0 ? "false" : "true");
    case "int":
      return (row) => String(integerAt(view, row, type.bits, type.signed));
    case "float":
      return (row) => floatText(floatAt(view, row, type.bits));
    case "utf8":
      return (row) => utf8(slice(type.layout, view, bytes, row), name);
    case "binary":
      return (row) => asBuffer(slice(type.layout, view, bytes, row)).toString("base64");
    case "fixed_binary":
      return (row) => asBuffer(fixed(values, type.bytes, row)).toString("base64");
    case "uuid":
      return (row) =>
        Buffer.from(fixed(values, 16, row))
          .toString("hex")
          .replace(/^(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-");
    case "decimal":
      return (row) => decimalText(wideAt(view, row, type.bits), type.scale);
    case "date":
      return (row) =>
        type.unit === "day"
          ? timeText(BigInt(view.getInt32(row * 4, true)) * dayNs, name).slice(0, 10)
          : timeText(view.getBigInt64(row * 8, true) * 1_000_000n, name);
    case "time":
      return (row) => {
        const ns = integerAt(view, row, type.bits, true) * (unitNs[type.unit] ?? 1n);
        if (ns < 0n || ns >= dayNs) {
          throw bad(`A value of ${shown(name)} is no time of day.`);
        }
        return timeText(ns, name).slice(11);
      };
    case "timestamp":
      return (row) => timeText(view.getBigInt64(row * 8, true) * (unitNs[type.unit] ?? 1n), name);
    case "duration":
      return (row) => microsText(view.getBigInt64(row * 8, true) * (unitNs[type.unit] ?? 1n), name);
    case "interval":
      return (row) => {
        const micros = microsText(view.getBigInt64(row * 16 + 8, true), name);
        return `${view.getInt32(row * 16, true)} months ${view.getInt32(row * 16 + 4, true)} days ${micros}`;
      };
  }
}

/** The value of a row where all have one length. */
function fixed(values: Uint8Array, bytes: number, row: number): Uint8Array {
  if (bytes < 0 || (row + 1) * bytes > values.length) {
    throw new RangeError();
  }
  return values.subarray(row * bytes, (row + 1) * bytes);
}

/** A part of DuckDB's text of an INTERVAL, whose finest unit this is. */
function microsText(ns: bigint, name: string): string {
  if (ns % 1000n !== 0n) {
    throw bad(`An interval of ${shown(name)} is finer than a microsecond.`);
  }
  return `${ns / 1000n} microseconds`;
}

function integerAt(view: DataView, row: number, bits: number, signed: boolean): bigint {
  switch (bits) {
    case 8:
      return BigInt(signed ? view.getInt8(row) : view.getUint8(row));
    case 16:
      return BigInt(signed ? view.getInt16(row * 2, true) : view.getUint16(row * 2, true));
    case 32:
      return BigInt(signed ? view.getInt32(row * 4, true) : view.getUint32(row * 4, true));
    default:
      return signed ? view.getBigInt64(row * 8, true) : view.getBigUint64(row * 8, true);
  }
}

function floatAt(view: DataView, row: number, bits: 16 | 32 | 64): number {
  if (bits === 64) {
    return view.getFloat64(row * 8, true);
  }
  return bits === 32 ? view.getFloat32(row * 4, true) : halfFloat(view.getUint16(row * 2, true));
}

/** IEEE 754 binary16. */
function halfFloat(word: number): number {
  const sign = word >= 0x8000 ? -1 : 1;
  const exponent = (word >> 10) & 0x1f;
  const fraction = word & 0x3ff;
  if (exponent === 0x1f) {
    return fraction === 0 ? sign * Infinity : NaN;
  }
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

/** A two's complement integer of 32, 64, 128 or 256 bits. */
function wideAt(view: DataView, row: number, bits: number): bigint {
  if (bits === 32) {
    return BigInt(view.getInt32(row * 4, true));
  }
  let value = 0n;
  for (let word = bits / 64 - 1; word >= 0; word--) {
    value = (value << 64n) | view.getBigUint64((row * bits) / 8 + word * 8, true);
  }
  return BigInt.asIntN(bits, value);
}

function decimalText(unscaled: bigint, scale: number): string {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, "0");
  const sign = unscaled < 0n ? "-" : "";
  const whole = digits.slice(0, digits.length - scale);
  return scale === 0 ? `${sign}${whole}` : `${sign}${whole}.${digits.slice(-scale)}`;
}

function floatText(value: number): string {
  if (Number.isNaN(value)) {
    return "nan";
  }
  if (Number.isFinite(value)) {
    return Object.is(value, -0) ? "-0" : String(value);
  }
  return value > 0 ? "inf" : "-inf";
}

function slice(layout: BytesLayout, view: DataView, buffers: readonly Uint8Array[], row: number): Uint8Array {
  if (layout === "views") {
    return viewed(view, buffers, row * 16);
  }
  const at = (i: number): number =>
    layout === "offsets64" ? Number(view.getBigInt64(i * 8, true)) : view.getInt32(i * 4, true);
  return within(buffers[0], at(row), at(row + 1));
}

/** Longest value that lies within its view. */
const maxInlineBytes = 12;

/** What a view refers to (Arrow columnar format, "Variable-size Binary View Layout"). */
function viewed(view: DataView, buffers: readonly Uint8Array[], at: number): Uint8Array {
  const length = view.getInt32(at, true);
  const start = view.getInt32(at + 12, true);
  if (length > maxInlineBytes) {
    return within(buffers[view.getInt32(at + 8, true)], start, start + length);
  }
  return within(new Uint8Array(view.buffer, view.byteOffset + at + 4, maxInlineBytes), 0, length);
}

function within(bytes: Uint8Array | undefined, start: number, end: number): Uint8Array {
  if (bytes === undefined || start < 0 || end < start || end > bytes.length) {
    throw new RangeError();
  }
  return bytes.subarray(start, end);
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function utf8(bytes: Uint8Array, name: string): string {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch (error) {
    throw bad(`A text of ${shown(name)} is not valid UTF-8.`, error);
  }
  if (text.includes("\u0000")) {
    throw bad(`A text of ${shown(name)} holds a NUL character.`);
  }
  return text;
}

/** `YYYY-MM-DD HH:MM:SS.nnnnnnnnn` for years 1 to 9999. */
function timeText(unixNs: bigint, name: string): string {
  const ms = unixNs / 1_000_000n - (unixNs % 1_000_000n < 0n ? 1n : 0n);
  const date = new Date(Number(ms));
  const year = date.getUTCFullYear();
  if (!(year >= 1 && year <= 9999)) {
    throw bad(`A time of ${shown(name)} lies outside of the years 1 to 9999.`);
  }
  const rest = unixNs - ms * 1_000_000n;
  const [day, time] = date.toISOString().slice(0, -1).split("T");
  return `${day} ${time}${String(rest).padStart(6, "0")}`;
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 80));
}

function bad(message: string, cause?: unknown): ServiceError {
  return new ServiceError("BAD_REQUEST", message, { cause });
}
