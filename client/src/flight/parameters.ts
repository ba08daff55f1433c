/** Values of parameters as the Arrow messages that bind them. */
import {
  Binary,
  Bool,
  type DataType,
  Field,
  Float64,
  Int64,
  List,
  Message,
  Null,
  Schema,
  Table,
  TimestampMillisecond,
  Uint64,
  Utf8,
  tableToIPC,
  vectorFromArray,
} from "apache-arrow";

import type { FlightDataFrame } from "./flight-messages.js";

/**
 * A value of a parameter. Times finer than the milliseconds of a Date are bound as text in RFC 3339; whole numbers
 * beyond 2^53 as bigint.
 */
export type Parameter = null | boolean | number | bigint | string | Date | Uint8Array | readonly Parameter[];

/**
 * One or more rows of parameters as the frames of a `DoPut`. The server takes every type of the same kind as the one
 * that it announced, so the type of a column follows from its values.
 * @param count of the `?` of the statement; by default as many as the first row has values
 * @throws TypeError when a row has another number of values, a column several types, or a value cannot be bound
 */
export function parameterFrames(
  rows: readonly (readonly Parameter[])[],
  count = rows[0]?.length ?? 0,
): FlightDataFrame[] {
  if (rows.some((row) => row.length !== count)) {
    throw new TypeError(
      "every row of parameters has one value for each ? of the statement; one row of nothing but lists goes into a list: [[[1, 2], [3]]]",
    );
  }
  const columns = Array.from({ length: count }, (_, at) => {
    const values = rows.map((row) => row[at] ?? null);
    const type = typeOf(values, `parameter ${at + 1}`);
    return vectorFromArray(
      values.map((value) => stored(value, type)),
      type,
    );
  });
  const schema = new Schema(columns.map(({ type }, at) => new Field(String(at + 1), type, true)));
  const table = new Table(schema, Object.fromEntries(columns.map((column, at) => [String(at + 1), column])));
  return framesOf(tableToIPC(table, "stream"));
}

function typeOf(values: readonly Parameter[], name: string): DataType {
  const given = values.filter((value) => value !== null);
  const [first] = given;
  const all = (check: (value: Parameter) => boolean): boolean => given.every(check);
  if (first === undefined) {
    return new Null();
  }
  if (all((value) => typeof value === "boolean")) {
    return new Bool();
  }
  // Whole numbers have no zero with a sign.
  if (all((value) => typeof value === "bigint" || (Number.isSafeInteger(value) && !Object.is(value, -0)))) {
    return integerType(given as readonly (number | bigint)[], name);
  }
  if (all((value) => typeof value === "number" || typeof value === "bigint")) {
    return new Float64();
  }
  if (all((value) => typeof value === "string")) {
    return new Utf8();
  }
  if (all((value) => value instanceof Date && !Number.isNaN(value.getTime()))) {
    return new TimestampMillisecond();
  }
  if (all((value) => value instanceof Uint8Array)) {
    return new Binary();
  }
  if (all((value) => Array.isArray(value))) {
    const items = given.flatMap((value) => value as readonly Parameter[]);
    const item = typeOf(items, name);
    // Nulls have no type. A text may become any other, and a list that holds none binds to every list.
    return new List(new Field("item", item instanceof Null ? new Utf8() : item, true));
  }
  throw new TypeError(`${name} has values of different types, or of one that cannot be bound`);
}

/** apache-arrow would cut off what is beyond 64 bits. */
function integerType(values: readonly (number | bigint)[], name: string): DataType {
  const fit = (least: bigint, most: bigint): boolean =>
    values.every((value) => BigInt(value) >= least && BigInt(value) <= most);
  if (fit(-(2n ** 63n), 2n ** 63n - 1n)) {
    return new Int64();
  }
  if (fit(0n, 2n ** 64n - 1n)) {
    return new Uint64();
  }
  throw new TypeError(`${name} has a whole number beyond 64 bits; bind it as text, and cast that in the statement`);
}

/** A value as apache-arrow's builder of the type takes it. */
function stored(value: Parameter, type: DataType): unknown {
  if (value === null) {
    return null;
  }
  if (value instanceof Date) {
    return value.getTime();
  }
  if (type instanceof Int64 || type instanceof Uint64) {
    return BigInt(value as number | bigint);
  }
  if (type instanceof Float64) {
    return Number(value);
  }
  if (type instanceof List) {
    return (value as readonly Parameter[]).map((item) => stored(item, type.valueType as DataType));
  }
  return value;
}

/** The messages of an IPC stream: each is a marker, the length of its header, the header, the body. */
function framesOf(stream: Uint8Array): FlightDataFrame[] {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength);
  const frames: FlightDataFrame[] = [];
  for (let at = 0; at + 8 <= stream.length;) {
    const headerBytes = view.getInt32(at + 4, true);
    if (headerBytes === 0) {
      break;
    }
    const header = stream.subarray(at + 8, at + 8 + headerBytes);
    const bodyAt = at + 8 + headerBytes;
    const bodyBytes = Message.decode(header).bodyLength;
    frames.push({ header, body: stream.subarray(bodyAt, bodyAt + bodyBytes) });
    at = bodyAt + bodyBytes;
  }
  return frames;
}
