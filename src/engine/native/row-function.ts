/**
 * A function of SQL that is given the rows of a statement where they are computed, for `SELECT it(*COLUMNS(*)) FROM (...)`.
 * Rows that are fetched have been copied once on their way, every text for itself: a quarter of the processor time of a
 * stream of texts. It takes an instance of one thread: rows of other threads would wait for this one's event loop.
 */
import { type Connection, DuckDbError, type Native } from "./connection.js";
import type { Pointer } from "./library.js";
import { NativeMemory } from "./memory.js";

/** Takes the rows of one statement. */
interface RowTaker {
  /**
   * @param chunk the caller's
   * @param types of its columns, while the statement is open
   * @throws what ends the statement
   */
  take(chunk: Pointer, types: readonly Pointer[]): void;
}

const name = "svc_take_rows";
/** Numbers of duckdb_type: TINYINT, which is what it returns, without a meaning, and any type at all. */
const [tinyint, any] = [2, 34];

/** The function of a thread, for all of its instances of one thread. */
export class RowFunction {
  /** For what is called while another call is under way: that one may have an address of the memory of the others. */
  readonly native: Native;
  readonly #bind;
  readonly #call;
  #taker: RowTaker | null = null;
  #types: Pointer[] = [];
  #failure: { readonly error: unknown } | null = null;

  constructor(native: Native) {
    this.native = { ...native, memory: new NativeMemory(native.c) };
    const { duckdb } = native;
    this.#bind = native.callback((info) => {
      this.#try(
        () => {
          this.#noteTypes(info);
        },
        (message) => {
          duckdb.scalar_function_bind_set_error(info, message);
        },
      );
    });
    this.#call = native.callback((info, chunk) => {
      this.#try(
        () => this.#taker?.take(chunk ?? 0, this.#types),
        (message) => {
          duckdb.scalar_function_set_error(info, message);
        },
      );
    });
  }

  /** Makes it known to an instance. @throws DuckDbError */
  define({ handle }: Connection): void {
    const { duckdb, memory } = this.native;
    const made = duckdb.create_scalar_function();
    const [taken, returned] = [duckdb.create_logical_type(any), duckdb.create_logical_type(tinyint)];
    try {
      duckdb.scalar_function_set_name(made, name);
      duckdb.scalar_function_set_varargs(made, taken);
      duckdb.scalar_function_set_return_type(made, returned);
      // Not computed once for all rows that are alike.
      duckdb.scalar_function_set_volatile(made);
      // Nor left out because an argument is NULL.
      duckdb.scalar_function_set_special_handling(made);
      duckdb.scalar_function_set_bind(made, this.#bind);
      duckdb.scalar_function_set_function(made, this.#call);
      if (duckdb.register_scalar_function(handle, made) !== 0) {
        throw new DuckDbError(`Catalog Error: ${name} cannot be defined`);
      }
    } finally {
      duckdb.destroy_logical_type(memory.box(taken));
      duckdb.destroy_logical_type(memory.box(returned));
      duckdb.destroy_scalar_function(memory.box(made));
    }
  }

  /** A statement that gives the rows of another to the function. */
  static of(sql: string): string {
    // What stands behind a comment is not part of it.
    return `SELECT ${name}(*COLUMNS(*)) FROM (${sql}\n)`;
  }

  /**
   * Prepares, runs and closes such a statement in `body`.
   * @throws what the taker has thrown; what `body` throws
   */
  serving<T>(taker: RowTaker, body: (types: () => readonly Pointer[]) => T): T {
    this.#taker = taker;
    this.#failure = null;
    try {
      return body(() => this.#types);
    } catch (error) {
      throw this.#thrown() ?? error;
    } finally {
      this.#taker = null;
      this.#forgetTypes();
    }
  }

  #thrown(): unknown {
    return this.#failure?.error;
  }

  /** A statement is bound when it is prepared, and again when it starts. */
  #noteTypes(info: Pointer): void {
    const { duckdb, memory } = this.native;
    this.#forgetTypes();
    const count = Number(duckdb.scalar_function_bind_get_argument_count(info));
    for (let i = 0; i < count; i++) {
      const argument = duckdb.scalar_function_bind_get_argument(info, i);
      this.#types.push(duckdb.expression_return_type(argument));
      duckdb.destroy_expression(memory.box(argument));
    }
  }

  #forgetTypes(): void {
    const { duckdb, memory } = this.native;
    for (const type of this.#types.splice(0)) {
      duckdb.destroy_logical_type(memory.box(type));
    }
  }

  /** C cannot catch what is thrown. */
  #try(work: () => void, tell: (message: string) => void): void {
    try {
      work();
    } catch (error) {
      this.#failure ??= { error };
      tell("its rows were not taken");
    }
  }
}
