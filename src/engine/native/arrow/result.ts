/** The Arrow side of a result: its schema, its dictionaries, and its chunks as DuckDB converts them. */
import { encodeSchemaMessage } from "../../../wire/flight/flight-arrow.js";
import { arrayBytes, PiecedColumn } from "./pieces.js";
import { narrowed, type NativeField, readSchema, renamed, schemaBytes, textField, toArrowFields } from "./schema.js";
import type { FieldNames } from "../../protocol.js";
import { type Connection, DuckDbError, type Native } from "../connection.js";
import type { Pointer } from "../library.js";
import { holdsType, isSameInArrow, typeIds } from "../logical-types.js";
import { words } from "../memory.js";

/** Name and logical type of a column. */
export interface ColumnHandle {
  readonly name: string;
  /** Its creator destroys it. */
  readonly type: Pointer;
}

/** What the rows of a result are. */
interface ArrowSchema {
  readonly fields: readonly NativeField[];
  /** The schema message (Message.fbs). */
  readonly message: Uint8Array;
  /** They are in DuckDB's memory until {@link ArrowConverter.release}. */
  readonly dictionaries: readonly { readonly id: number; readonly values: PiecedColumn }[];
  /** The vectors of chunks hold what the arrays would. */
  readonly sameVectors: boolean;
}

/** Chunks that can be held at a time. */
export const maxHeldChunks = 1024;

/** Offsets of `children`, `dictionary` and `release` in struct ArrowArray, and of `release` in ArrowSchema. */
const at = { children: 48, dictionary: 56, release: 64, schemaRelease: 56 } as const;

/** Converts what a connection returns. Close it before the connection. */
export class ArrowConverter {
  readonly #native: Native;
  readonly #options: Pointer;
  /** Structures for the arrays of chunks, one for a schema behind them. */
  readonly #slots: Pointer;
  readonly #kept: Pointer[] = [];
  #held = 0;

  constructor({ native, handle }: Pick<Connection, "native" | "handle">) {
    const { duckdb, memory, c } = native;
    this.#native = native;
    duckdb.connection_get_arrow_options(handle, memory.out());
    this.#options = memory.taken();
    this.#slots = c.calloc(maxHeldChunks * arrayBytes + schemaBytes, 1);
    if (this.#options === 0 || this.#slots === 0) {
      throw new DuckDbError("Out of Memory Error: no room to convert results");
    }
  }

  /** How many chunks are held, as arrays or as they are. */
  get held(): number {
    return this.#held + this.#kept.length;
  }

  /**
   * @param called what the columns and their fields are called, when there are as many; else DuckDB's names
   * @throws DuckDbError for a type that Arrow does not have
   */
  schema(columns: readonly ColumnHandle[], called: readonly FieldNames[] = []): ArrowSchema {
    const { duckdb, memory, release } = this.#native;
    this.#refuseLargeIntegers(columns);
    const out = this.#slots + maxHeldChunks * arrayBytes;
    const types = words(columns.map(({ type }) => type));
    const names = columns.map(({ name }) => name);
    const error = duckdb.to_arrow_schema(this.#options, types, names, columns.length, out);
    if (error !== 0) {
      throw this.#refused(error, columns);
    }
    try {
      const fields = renamed(readSchema(this.#native, out).children, called).map((field, i) =>
        duckdb.get_type_id(columns[i]?.type ?? 0) === typeIds.hugeint ? narrowed(field) : field,
      );
      const { ids, dictionaries } = this.#dictionaries(fields, types);
      const message = encodeSchemaMessage(toArrowFields(fields, ids));
      return {
        fields,
        message,
        dictionaries,
        sameVectors: columns.every(({ type }) => isSameInArrow(this.#native, type)),
      };
    } finally {
      release(memory.pointerAt(out + at.schemaRelease), out);
    }
  }

  /** Converts a chunk, which stays its owner's. @returns its array, until {@link release}. @throws DuckDbError */
  convert(chunk: Pointer): Pointer {
    const array = this.#slots + this.#held * arrayBytes;
    const error = this.#native.duckdb.data_chunk_to_arrow(this.#options, chunk, array);
    if (error !== 0) {
      throw this.#taken(error);
    }
    this.#held++;
    return array;
  }

  /** Takes a chunk over as it is, until {@link release}. */
  keep(chunk: Pointer): void {
    this.#kept.push(chunk);
  }

  /** The address of a child's array. */
  child(array: Pointer, index: number): Pointer {
    const { memory } = this.#native;
    return memory.pointerAt(memory.pointerAt(array + at.children) + index * 8);
  }

  /** Lets all arrays and chunks go. */
  release(): void {
    const { duckdb, memory, release } = this.#native;
    for (const chunk of this.#kept) {
      duckdb.destroy_data_chunk(memory.box(chunk));
    }
    this.#kept.length = 0;
    while (this.#held > 0) {
      const array = this.#slots + --this.#held * arrayBytes;
      release(memory.pointerAt(array + at.release), array);
    }
  }

  close(): void {
    this.release();
    this.#native.duckdb.destroy_arrow_options(this.#native.memory.box(this.#options));
    this.#native.c.free(this.#slots);
  }

  /** The dictionaries of fields, depth first. They come with every chunk, also with one that has no rows. */
  #dictionaries(
    fields: readonly NativeField[],
    types: BigUint64Array,
  ): { ids: number[]; dictionaries: ArrowSchema["dictionaries"] } {
    const ids: number[] = [];
    const byContent = new Map<string, { id: number; values: PiecedColumn }>();
    const visit = (field: NativeField, array: Pointer): void => {
      if (field.indexBits !== null) {
        const values = new PiecedColumn(textField);
        const texts = this.#native.memory.pointerAt(array + at.dictionary);
        const rows = this.#native.memory.pointerAt(texts);
        values.add(this.#native.memory, texts, 0, rows);
        // Equal enumerations share a dictionary: some readers know one of a schema only.
        const content = values.textContent(this.#native.memory);
        const dictionary = byContent.get(content) ?? { id: byContent.size, values };
        byContent.set(content, dictionary);
        ids.push(dictionary.id);
      }
      for (const [i, child] of field.children.entries()) {
        visit(child, this.child(array, i));
      }
    };
    if (fields.some(hasDictionary)) {
      const { duckdb, memory } = this.#native;
      const chunk = duckdb.create_data_chunk(types, fields.length);
      try {
        const array = this.convert(chunk);
        for (const [i, field] of fields.entries()) {
          visit(field, this.child(array, i));
        }
      } finally {
        duckdb.destroy_data_chunk(memory.box(chunk));
      }
    }
    return { ids, dictionaries: [...byContent.values()] };
  }

  /** DuckDB exports them as signed numbers of as many bits: large ones would come out negative. */
  #refuseLargeIntegers(columns: readonly ColumnHandle[]): void {
    for (const { name, type } of columns) {
      if (!holdsType(this.#native, type, typeIds.uhugeint)) {
        continue;
      }
      throw new DuckDbError(
        `Not implemented Error: column ${JSON.stringify(name)} is UHUGEINT, which Arrow has no type for; cast it to VARCHAR, DOUBLE or DECIMAL(38,0)`,
      );
    }
  }

  /** Names the column that Arrow does not have a type for. */
  #refused(error: Pointer, columns: readonly ColumnHandle[]): DuckDbError {
    const { message } = this.#taken(error);
    if (columns.length === 1) {
      const name = JSON.stringify(columns[0]?.name);
      return new DuckDbError(`${message} (column ${name}); cast it to VARCHAR`);
    }
    for (const column of columns) {
      try {
        this.schema([column]);
        this.release();
      } catch (refused) {
        if (refused instanceof DuckDbError) {
          return refused;
        }
        throw refused;
      }
    }
    return new DuckDbError(message);
  }

  /** The error that a call returned; it is destroyed. */
  #taken(error: Pointer): DuckDbError {
    const { duckdb, memory } = this.#native;
    const message = duckdb.error_data_message(error) ?? "";
    duckdb.destroy_error_data(memory.box(error));
    return new DuckDbError(sentence(message));
  }
}

/** What DuckDB throws within a conversion is JSON; what the C++ library throws has no class. */
function sentence(message: string): string {
  const [, type, text] = /^\{"exception_type":"([^"]*)","exception_message":("(?:[^"\\]|\\.)*")/su.exec(message) ?? [];
  if (text !== undefined) {
    return `${type} Error: ${String(JSON.parse(text))}`;
  }
  return message.includes("bad_alloc") ? `Out of Memory Error: ${message}` : message;
}

function hasDictionary(field: NativeField): boolean {
  return field.indexBits !== null || field.children.some(hasDictionary);
}
