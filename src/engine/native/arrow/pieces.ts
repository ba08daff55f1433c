/**
 * Columns of a record batch as the pieces that they come in: addresses and sizes of the arrays that DuckDB made of its
 * chunks of 2048 rows (Arrow C data interface), or of the vectors of a chunk where they are the same, which stay there
 * until the batch is written. Hot code: numbers in typed arrays; a piece costs three calls of 0.15 us, and nothing per
 * row.
 */
import type { Layout, NativeField } from "./schema.js";
import type { Native } from "../connection.js";
import type { Pointer } from "../library.js";
import type { NativeMemory } from "../memory.js";

/** Bytes of struct ArrowArray. */
export const arrayBytes = 80;

/** Words of a piece in {@link PiecedColumn.pieces}. */
export const pieceWords = 7;
/** Where its words lie: its rows, the first of them in the array, how many are null, ... */
export const rowsWord = 0;
export const fromWord = 1;
export const nullsWord = 2;
/** ... the addresses of the bits that tell nulls and of the values or offsets, ... */
export const validityWord = 3;
export const valuesWord = 4;
/** ... and where the bytes of its rows begin and end; of a list, its elements. */
export const startWord = 5;
export const endWord = 6;

/** One field's pieces, and those of its children. */
export class PiecedColumn {
  readonly layout: Layout;
  readonly children: readonly PiecedColumn[];
  pieces = new Float64Array(pieceWords * 64);
  /** Addresses of the bytes of texts, by piece. */
  data = new Float64Array(64);
  count = 0;
  rows = 0;
  nulls = 0;

  constructor(field: NativeField) {
    this.layout = field.layout;
    this.children = field.children.map((child) => new PiecedColumn(child));
  }

  /** Adds rows of an array. @returns about how many bytes they take */
  add(memory: NativeMemory, array: Pointer, first: number, rows: number): number {
    memory.load(array, arrayBytes);
    const length = memory.pointer(0);
    const nullCount = memory.pointer(8);
    const from = first + memory.pointer(16);
    const buffers = memory.pointer(40);
    const children = memory.pointer(48);
    const bufferCount = memory.pointer(24);
    if (bufferCount > 0) {
      memory.load(buffers, 8 * Math.min(bufferCount, 3));
    }
    const isUnion = this.layout.kind === "union";
    const validity = bufferCount > 0 && !isUnion ? memory.pointer(0) : 0;
    const values = bufferCount === 0 ? 0 : memory.pointer(isUnion ? 0 : 8);
    const data = bufferCount > 2 ? memory.pointer(16) : 0;
    const nulls =
      validity === 0 || nullCount === 0
        ? 0
        : rows === length
          ? nullCount
          : rows - bitsSet(memory, validity, from, rows);
    let [start, end] = [0, 0];
    if (this.layout.kind === "bytes" || this.layout.kind === "list") {
      if (rows > 0 && values !== 0) {
        memory.load(values + from * 4, 4);
        memory.load(values + (from + rows) * 4, 4, 8);
        start = memory.int32(0);
        end = memory.int32(8);
      }
    }
    this.#push(rows, from, nulls, validity, values, start, end, data);
    return (rows >> 3) + this.#addContents(memory, children, from, rows, start, end);
  }

  /** Adds rows of a flat vector that holds what an array would, of a layout of fixed width. @returns as {@link add} */
  addVector({ duckdb, memory }: Native, vector: Pointer, first: number, rows: number): number {
    const validity = duckdb.vector_get_validity(vector);
    const nulls = validity === 0 ? 0 : rows - bitsSet(memory, validity, first, rows);
    this.#push(rows, first, nulls, validity, duckdb.vector_get_data(vector), 0, 0, 0);
    return (rows >> 3) + this.#addContents(memory, 0, first, rows, 0, 0);
  }

  /** The only piece's offsets and bytes, in a form that can be compared. */
  textContent(memory: NativeMemory): string {
    const [rows = 0] = this.pieces;
    const offsets = memory.bytes(this.pieces[valuesWord]!, (rows + 1) * 4);
    const bytes = memory.bytes(this.data[0]!, this.pieces[endWord]!);
    return Buffer.concat([offsets, bytes]).toString("latin1");
  }

  /** Takes back what was added last. */
  undo(): void {
    this.count--;
    this.rows -= this.pieces[this.count * pieceWords + rowsWord] ?? 0;
    this.nulls -= this.pieces[this.count * pieceWords + nullsWord] ?? 0;
    for (const child of this.children) {
      child.undo();
    }
  }

  clear(): void {
    this.count = 0;
    this.rows = 0;
    this.nulls = 0;
    for (const child of this.children) {
      child.clear();
    }
  }

  #addContents(
    memory: NativeMemory,
    children: Pointer,
    from: number,
    rows: number,
    start: number,
    end: number,
  ): number {
    const { layout } = this;
    switch (layout.kind) {
      case "null":
        return 0;
      case "bits":
        return rows >> 3;
      case "fixed":
        return rows * layout.bytes;
      case "narrowed":
        return rows * 8;
      case "bytes":
        return rows * 4 + end - start;
      case "list":
        return rows * 4 + this.#addChildren(memory, children, start, end - start);
      case "fixed_list":
        return this.#addChildren(memory, children, from * layout.size, rows * layout.size);
      case "struct":
        return this.#addChildren(memory, children, from, rows);
      case "union":
        return rows + this.#addChildren(memory, children, from, rows);
    }
  }

  #addChildren(memory: NativeMemory, children: Pointer, from: number, rows: number): number {
    let bytes = 0;
    for (let i = 0; i < this.children.length; i++) {
      bytes += this.children[i]!.add(memory, memory.pointerAt(children + i * 8), from, rows);
    }
    return bytes;
  }

  #push(
    rows: number,
    from: number,
    nulls: number,
    validity: Pointer,
    values: Pointer,
    start: number,
    end: number,
    data: Pointer,
  ): void {
    if (this.count === this.data.length) {
      this.pieces = grown(this.pieces);
      this.data = grown(this.data);
    }
    const { pieces } = this;
    const at = this.count * pieceWords;
    pieces[at + rowsWord] = rows;
    pieces[at + fromWord] = from;
    pieces[at + nullsWord] = nulls;
    pieces[at + validityWord] = validity;
    pieces[at + valuesWord] = values;
    pieces[at + startWord] = start;
    pieces[at + endWord] = end;
    this.data[this.count++] = data;
    this.rows += rows;
    this.nulls += nulls;
  }
}

function grown(words: Float64Array): Float64Array<ArrayBuffer> {
  const more = new Float64Array(words.length * 2);
  more.set(words);
  return more;
}

/** How many bits of each byte are 1. */
const bitsOfByte = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll("0", "").length);

/** How many of the bits `from` to `from + count` are 1. */
function bitsSet(memory: NativeMemory, bits: Pointer, from: number, count: number): number {
  const skipped = from & 7;
  const end = skipped + count;
  let set = 0;
  // A piece of a chunk has few rows; a child of one may have many.
  const step = 32 * 1024 * 8;
  for (let done = 0; done < end; done += step) {
    const part = Math.min(step, end - done);
    const length = (part + 7) >> 3;
    memory.load(bits + ((from - skipped + done) >> 3), length);
    const bytes = memory.loaded(length);
    if (done === 0) {
      bytes[0]! &= 0xff << skipped;
    }
    if ((part & 7) !== 0) {
      bytes[length - 1]! &= 0xff >> (8 - (part & 7));
    }
    for (let i = 0; i < length; i++) {
      set += bitsOfByte[bytes[i]!]!;
    }
  }
  return set;
}
