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

/** See the head of this file. */
export class SharedValues {
  readonly #values: readonly (Uint8Array | null)[];
  readonly #memos: Memo[] = [];
  #nextMemo = 0;

  /** @param values one per run column, in the order of the columns given to {@link append}. */
  constructor(values: readonly (Uint8Array | null)[]) {
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
      memo = { table, generation: -1, indexes: new Int32Array(this.#values.length) };
      this.#memos.push(memo);
    } else {
      memo.table = table;
    }
    this.#nextMemo = (this.#nextMemo + 1) % memoLimit;
    this.#intern(memo, columns);
    return memo;
  }

  #intern(memo: Memo, columns: readonly RunColumn[]): void {
    memo.generation = memo.table.generation;
    for (let index = 0; index < columns.length; index++) {
      const value = this.#values[index] ?? null;
      memo.indexes[index] = value === null ? -1 : columns[index]!.dictionary.intern(value, 0, value.length);
    }
  }
}
