/**
 * Values that many rows share (a resource's, a scope's), ready for the run columns of any table, with
 * their dictionary indexes remembered per table, so that a block costs a few appends.
 */
import type { RunColumn } from "../../lake/tables/columns.js";
import type { TableState } from "./table-state.js";

interface Memo {
  table: TableState;
  generation: number;
  readonly indexes: Int32Array;
}

/** Tables of different audiences that one set of values is remembered for at a time. */
const memoLimit = 4;

/** Values in one piece of memory: thousands of processes are remembered, and an array of its own for each value is dear. */
export interface PackedValues {
  readonly bytes: Uint8Array;
  /** Start and end of each value; {@link noValue} twice for null. */
  readonly ranges: readonly number[];
}

const noValue = -1;

/** Where values are laid before their length is known, unless they are long. */
const scratch = Buffer.alloc(64 * 1024);

/** Lays values one behind the other, texts as UTF-8. */
export function packValues(values: readonly (Uint8Array | string | null)[]): PackedValues {
  let most = 0;
  for (const value of values) {
    most += value === null ? 0 : typeof value === "string" ? value.length * 3 : value.length;
  }
  const room = most <= scratch.length ? scratch : Buffer.alloc(most);
  const ranges: number[] = [];
  let at = 0;
  for (const value of values) {
    if (value === null) {
      ranges.push(noValue, noValue);
      continue;
    }
    const start = at;
    if (typeof value === "string") {
      at += room.write(value, start);
    } else {
      room.set(value, start);
      at += value.length;
    }
    ranges.push(start, at);
  }
  return { bytes: new Uint8Array(room.subarray(0, at)), ranges };
}

/** See the head of this file. */
export class SharedValues {
  readonly #values: PackedValues;
  readonly #memos: Memo[] = [];
  #nextMemo = 0;

  /** @param values one per run column, in the order of the columns given to {@link append} */
  constructor(values: PackedValues) {
    this.#values = values;
  }

  /** Appends `count` rows of these values to run columns of `table`. */
  append(table: TableState, columns: readonly RunColumn[], count: number): void {
    if (count === 0) {
      return;
    }
    const { indexes } = this.#memoOf(table, columns);
    for (let index = 0; index < columns.length; index++) {
      columns[index]!.append(indexes[index]!, count);
    }
  }

  #memoOf(table: TableState, columns: readonly RunColumn[]): Memo {
    for (const memo of this.#memos) {
      if (memo.table !== table) {
        continue;
      }
      if (memo.generation !== table.generation) {
        this.#intern(memo, columns);
      }
      return memo;
    }
    let memo = this.#memos[this.#nextMemo];
    if (memo === undefined) {
      memo = { table, generation: -1, indexes: new Int32Array(columns.length) };
      this.#memos.push(memo);
    } else {
      memo.table = table;
    }
    this.#nextMemo = (this.#nextMemo + 1) % memoLimit;
    this.#intern(memo, columns);
    return memo;
  }

  #intern(memo: Memo, columns: readonly RunColumn[]): void {
    const { bytes, ranges } = this.#values;
    memo.generation = memo.table.generation;
    for (let index = 0; index < columns.length; index++) {
      const start = ranges[2 * index]!;
      const end = ranges[2 * index + 1]!;
      memo.indexes[index] = start === noValue ? -1 : columns[index]!.dictionary.intern(bytes, start, end);
    }
  }
}
