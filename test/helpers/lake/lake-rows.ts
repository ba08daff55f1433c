/**
 * Random lake tables: the same rows once in column builders and once as plain values, to compare with
 * what independent readers make of the file.
 */
import type { Column, LeafColumn } from "../../../src/lake/tables/columns.js";
import { createColumns, type LeafDefinition, type TableDefinition } from "../../../src/lake/tables/tables.js";
import { seededRandom } from "../seeded-random.js";

/** A value as both readers are brought to: integers and times as bigint, lists and structs plain. */
export type PlainValue = bigint | number | string | boolean | null | PlainValue[] | { [name: string]: PlainValue };

interface RandomTable {
  readonly columns: Record<string, Column>;
  /** Values by column, in row order. */
  readonly expected: Record<string, PlainValue[]>;
}

type Random = () => number;

const texts = ["", "a", "INFO", "naïve ☃ 𝄞", "\0", "x".repeat(300), '{"k":"v"}', "ffffffff", " "];
const specialDoubles = [0, -0, NaN, Infinity, -Infinity, 5e-324, 1.7976931348623157e308, 1.5];
const specialInt64 = [0n, -1n, 1n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 32n, -(2n ** 32n), 255n];
const specialInt32 = [0, 1, 6, 63, 64, -1, 2147483647, -2147483648];

/** How a column behaves over its rows. */
interface Shape {
  readonly nullShare: number;
  /** Chance that a row repeats the one before. */
  readonly repeat: number;
  readonly small: boolean;
  readonly long: boolean;
}

function pick<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)] as T;
}

function randomShape(random: Random, nullable: boolean): Shape {
  return {
    nullShare: nullable ? pick(random, [0, 0, 0.01, 0.5, 0.99, 1]) : 0,
    repeat: pick(random, [0, 0, 0.5, 0.95, 0.999, 1]),
    small: random() < 0.4,
    long: random() < 0.1,
  };
}

function randomValue(random: Random, definition: LeafDefinition, shape: Shape): PlainValue {
  switch (definition.type) {
    case "timestamp_ns":
    case "int64":
    case "run_int64":
    case "run_timestamp_ns":
      return randomInt64(random, shape);
    case "uint64":
      return BigInt.asUintN(64, randomInt64(random, shape));
    case "int32":
      if (shape.small) {
        return Math.floor(random() * 7);
      }
      return random() < 0.2 ? pick(random, specialInt32) : Math.floor(random() * 2 ** 32) | 0;
    case "float64":
      return shape.small || random() < 0.2 ? pick(random, specialDoubles) : random() * 1e6 - 5e5;
    case "bool":
      return random() < 0.5;
    case "utf8":
    case "run_utf8": {
      if (shape.small) {
        return pick(random, texts);
      }
      const length = Math.floor(random() * (shape.long ? 2000 : 40));
      const word = Math.floor(random() * 1e9).toString(36);
      return pick(random, texts) + word.repeat(1 + length / word.length);
    }
  }
}

function randomInt64(random: Random, shape: Shape): bigint {
  if (shape.small) {
    return BigInt(Math.floor(random() * 8));
  }
  if (random() < 0.2) {
    return pick(random, specialInt64);
  }
  const high = BigInt(Math.floor(random() * 2 ** 32));
  return BigInt.asIntN(64, (high << 32n) | BigInt(Math.floor(random() * 2 ** 32)));
}

/** Values of one leaf, drawn so that runs, constants and sparse columns all come up. */
function leafGenerator(random: Random, definition: LeafDefinition): () => PlainValue {
  const shape = randomShape(random, definition.nullable);
  const draw = (): PlainValue => (random() < shape.nullShare ? null : randomValue(random, definition, shape));
  let last = draw();
  return () => {
    if (random() >= shape.repeat) {
      last = draw();
    }
    return last;
  };
}

const words = new DataView(new ArrayBuffer(8));

/** Appends one value to a builder of any kind. */
export function pushValue(column: LeafColumn, value: PlainValue): void {
  if (value === null) {
    if (column.kind === "run") {
      column.append(-1, 1);
    } else {
      column.pushNull();
    }
    return;
  }
  switch (column.kind) {
    case "int64":
      words.setBigInt64(0, value as bigint, true);
      column.push(words.getUint32(0, true), words.getUint32(4, true));
      return;
    case "float64":
      words.setFloat64(0, value as number, true);
      column.push(words.getUint32(0, true), words.getUint32(4, true));
      return;
    case "int32":
      column.push(value as number);
      return;
    case "bool":
      column.push(value as boolean);
      return;
    case "utf8": {
      const bytes = Buffer.from(value as string);
      column.reserve(bytes.length);
      column.bytes.set(bytes, column.byteLength);
      column.byteLength += bytes.length;
      column.finish();
      return;
    }
    case "run": {
      if (typeof value === "bigint") {
        words.setBigInt64(0, value, true);
      }
      const bytes = typeof value === "bigint" ? new Uint8Array(words.buffer) : Buffer.from(value as string);
      column.appendBytes(bytes, 0, bytes.length, 1);
    }
  }
}

/** `rows` random rows of a table; the same seed gives the same rows. */
export function randomTable(definition: TableDefinition, rows: number, seed: number): RandomTable {
  const random = seededRandom(seed);
  const columns = createColumns(definition) as Record<string, Column>;
  const expected: Record<string, PlainValue[]> = {};
  for (const [name, columnDefinition] of Object.entries(definition)) {
    const column = columns[name];
    if (column === undefined) {
      throw new Error(`no builder for ${name}`);
    }
    const values: PlainValue[] = [];
    if (columnDefinition.type === "list") {
      if (column.kind !== "list") {
        throw new Error(`${name} is no list`);
      }
      const children = Object.entries(columnDefinition.children).map(([child, leaf]) => ({
        child,
        next: leafGenerator(random, leaf),
        builder: column.children[child],
      }));
      const bare = children.length === 1 && children[0]?.child === "element";
      const emptyShare = pick(random, [0, 0.3, 0.99, 1]);
      const longest = pick(random, [1, 3, 20]);
      for (let row = 0; row < rows; row++) {
        const length = random() < emptyShare ? 0 : 1 + Math.floor(random() * longest);
        const list: PlainValue[] = [];
        for (let i = 0; i < length; i++) {
          const element: Record<string, PlainValue> = {};
          for (const { child, next, builder } of children) {
            if (builder === undefined) {
              throw new Error(`no builder for ${name}.${child}`);
            }
            const value = next();
            element[child] = value;
            pushValue(builder, value);
          }
          list.push(bare ? (element["element"] ?? null) : element);
        }
        column.finish();
        values.push(list);
      }
    } else {
      if (column.kind === "list") {
        throw new Error(`${name} is a list`);
      }
      const next = leafGenerator(random, columnDefinition);
      for (let row = 0; row < rows; row++) {
        const value = next();
        pushValue(column, value);
        values.push(value);
      }
    }
    expected[name] = values;
  }
  return { columns, expected };
}
