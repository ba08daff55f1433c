/**
 * Column chunks: dictionary page and data pages (version 2) of one leaf.
 *
 * Version 2 pages keep levels outside the compressed part and say page by page whether they are
 * compressed. So values that do not shrink go to the file straight from the builder's memory even in a
 * compressed file, and the levels of a column without nulls are four bytes.
 */
import { compressSync } from "lz4-napi";
import { asBuffer } from "telemetry-service-client/shared/as-buffer";
import type { Column, LeafColumn, ListColumn } from "../tables/columns.js";
import { ByteBuffer, type ChunkList } from "./byte-buffer.js";
import { codec, encoding, pageType } from "./format.js";
import type { LeafLayout } from "./layout.js";
import {
  countValues,
  listRange,
  writeFlatDefinitionLevels,
  writeListDefinitionLevels,
  writeNullableListDefinitionLevels,
  writeRepetitionLevels,
  writeRunDefinitionLevels,
} from "./levels.js";
import { constantStatistics, int32Statistics, int64Statistics, runStatistics, type Statistics } from "./statistics.js";
import { ThriftWriter } from "./thrift.js";
import { type DictionaryPage, valueSource, type ValueSource } from "./values.js";

/** Page compression: `lz4` is LZ4_RAW, where it pays. */
export type Compression = "lz4" | "none";

/** What the footer says about a chunk. Sizes and offsets in bytes. */
export interface ColumnChunk {
  readonly leaf: LeafLayout;
  readonly codec: number;
  readonly encodings: readonly number[];
  /** Level entries: rows, or for lists elements plus one per empty list. */
  readonly entries: number;
  readonly uncompressedBytes: number;
  readonly compressedBytes: number;
  readonly dictionaryPageOffset: number | null;
  readonly dataPageOffset: number;
  readonly statistics: Statistics | null;
}

/** Pages aim at this many bytes of values. */
const pageTargetBytes = 1024 * 1024;
/** Less than this is never compressed. */
const compressMinimumBytes = 64;
/** Larger bodies are compressed only when a sample of them shrinks. */
const sampleBytes = 16 * 1024;
const sampleFromBytes = 4 * sampleBytes;
/**
 * The largest share of the bytes that compression may leave; above it pages stay plain, which readers read faster.
 */
const worthwhileRatio = 0.9;

/** The LZ4 block of `bytes`, or null when it does not pay. */
function compressed(bytes: Uint8Array): Uint8Array | null {
  if (bytes.length < compressMinimumBytes) {
    return null;
  }
  // The library puts the uncompressed size before the block, which LZ4_RAW does not have.
  const block = compressSync(asBuffer(bytes)).subarray(4);
  return block.length <= bytes.length * worthwhileRatio ? block : null;
}

/** Whether a sample from the middle of a large body says that compressing all of it would pay. */
function looksCompressible(body: Uint8Array): boolean {
  if (body.length < sampleFromBytes) {
    return true;
  }
  const from = (body.length - sampleBytes) >> 1;
  return compressed(body.subarray(from, from + sampleBytes)) !== null;
}

interface DataPage {
  readonly entries: number;
  readonly nulls: number;
  readonly rows: number;
  readonly encoding: number;
  readonly repetitionBytes: number;
  readonly definitionBytes: number;
}

/** Writes the column chunks of one file, one after the other. Owns scratch memory; not reentrant. */
export class ColumnChunkWriter {
  readonly #file: ChunkList;
  readonly #compression: Compression;
  readonly #levels = new ByteBuffer(4096);
  readonly #values = new ByteBuffer();
  readonly #header = new ByteBuffer(256);
  #codec: number = codec.uncompressed;
  #mayCompress = false;
  #uncompressedBytes = 0;

  constructor(file: ChunkList, compression: Compression) {
    this.#file = file;
    this.#compression = compression;
  }

  /** Writes the pages of one leaf of `column`. */
  write(leaf: LeafLayout, column: Column): ColumnChunk {
    const start = this.#file.bytes;
    this.#codec = codec.uncompressed;
    this.#mayCompress = this.#compression === "lz4";
    this.#uncompressedBytes = 0;

    const values: LeafColumn = column.kind === "list" ? childOf(column, leaf) : column;
    const source = valueSource(values, leaf.type === "run_utf8");
    if (source.dictionary !== null) {
      this.#writeDictionary(source.dictionary);
    }
    const dataPageOffset = this.#file.bytes;
    const entries =
      column.kind === "list"
        ? this.#writeListPages(leaf, column, values, source)
        : this.#writeFlatPages(leaf, column, source);

    return {
      leaf,
      codec: this.#codec,
      encodings:
        source.dictionary === null ? [encoding.rle, source.encoding] : [encoding.plain, encoding.rle, source.encoding],
      entries,
      uncompressedBytes: this.#uncompressedBytes,
      compressedBytes: this.#file.bytes - start,
      dictionaryPageOffset: source.dictionary === null ? null : start,
      dataPageOffset,
      statistics: column.kind === "list" ? null : flatStatistics(leaf, column, source),
    };
  }

  #writeFlatPages(leaf: LeafLayout, column: LeafColumn, source: ValueSource): number {
    const rows = column.rows;
    const step = rowsPerPage(rows, source.bytes);
    let value = 0;
    for (let from = 0; from < rows; from += step) {
      const to = Math.min(rows, from + step);
      const levels = this.#levels;
      levels.clear();
      let present: number;
      if (column.kind === "run") {
        present = rows - column.nulls;
        if (leaf.nullable) {
          writeRunDefinitionLevels(levels, column);
        }
      } else {
        present = countValues(column.validity, from, to);
        if (leaf.nullable) {
          writeFlatDefinitionLevels(levels, column.validity, from, to);
        }
      }
      this.#writeData(source, value, value + present, {
        entries: to - from,
        nulls: to - from - present,
        rows: to - from,
        encoding: source.encoding,
        repetitionBytes: 0,
        definitionBytes: levels.length,
      });
      value += present;
    }
    return rows;
  }

  #writeListPages(leaf: LeafLayout, column: ListColumn, values: LeafColumn, source: ValueSource): number {
    if (values.kind === "run") {
      throw new TypeError(`${leaf.path.join(".")}: a run column in a list`);
    }
    const rows = column.rows;
    const step = rowsPerPage(rows, source.bytes);
    let value = 0;
    let entries = 0;
    for (let from = 0; from < rows; from += step) {
      const range = listRange(column.ends, from, Math.min(rows, from + step));
      const present = countValues(values.validity, range.firstElement, range.endElement);
      const levels = this.#levels;
      levels.clear();
      writeRepetitionLevels(levels, column.ends, range);
      const repetitionBytes = levels.length;
      if (leaf.nullable) {
        writeNullableListDefinitionLevels(levels, column.ends, range, values.validity);
      } else {
        writeListDefinitionLevels(levels, column.ends, range);
      }
      this.#writeData(source, value, value + present, {
        entries: range.entries,
        nulls: range.entries - present,
        rows: range.to - range.from,
        encoding: source.encoding,
        repetitionBytes,
        definitionBytes: levels.length - repetitionBytes,
      });
      value += present;
      entries += range.entries;
    }
    return entries;
  }

  #writeDictionary(dictionary: DictionaryPage): void {
    const body = dictionary.bytes;
    const block = this.#mayCompress ? compressed(body) : null;
    // A dictionary page cannot say that it is not compressed, so it decides for its chunk.
    this.#mayCompress = block !== null;
    if (block !== null) {
      this.#codec = codec.lz4Raw;
    }
    const stored = block ?? body;
    const thrift = this.#beginHeader(pageType.dictionary, body.length, stored.length);
    thrift.structField(7);
    thrift.i32(1, dictionary.values);
    thrift.i32(2, encoding.plain);
    thrift.endStruct();
    this.#endHeader(thrift, body.length);
    this.#file.reference(stored);
  }

  /** Writes one data page, whose levels are in `#levels`. */
  #writeData(source: ValueSource, from: number, to: number, page: DataPage): void {
    const values = this.#values;
    values.clear();
    // Also of no values: some encodings begin with how many there are.
    const body = source.encode(values, from, to);
    const bodyBytes = values.length + (body === null ? 0 : body.length);
    const block = this.#mayCompress ? this.#compressBody(body, bodyBytes) : null;
    if (block !== null) {
      this.#codec = codec.lz4Raw;
    }

    const levels = this.#levels.view();
    const storedBytes = levels.length + (block === null ? bodyBytes : block.length);
    const thrift = this.#beginHeader(pageType.dataV2, levels.length + bodyBytes, storedBytes);
    thrift.structField(8);
    thrift.i32(1, page.entries);
    thrift.i32(2, page.nulls);
    thrift.i32(3, page.rows);
    thrift.i32(4, page.encoding);
    thrift.i32(5, page.definitionBytes);
    thrift.i32(6, page.repetitionBytes);
    thrift.bool(7, block !== null);
    thrift.endStruct();
    this.#endHeader(thrift, levels.length + bodyBytes);
    this.#file.copy(levels);
    if (block !== null) {
      this.#file.reference(block);
      return;
    }
    // `values` is reused by the next page: copied, as against the builder's memory.
    this.#file.copy(values.view());
    if (body !== null) {
      this.#file.reference(body);
    }
  }

  /** Compresses `#values` followed by `body`. */
  #compressBody(body: Uint8Array | null, bodyBytes: number): Uint8Array | null {
    if (bodyBytes < compressMinimumBytes) {
      return null;
    }
    const values = this.#values;
    if (body === null) {
      return compressed(values.view());
    }
    if (!looksCompressible(body)) {
      return null;
    }
    if (values.length === 0) {
      return compressed(body);
    }
    const encodedBytes = values.length;
    values.append(body);
    const block = compressed(values.view());
    values.length = encodedBytes;
    return block;
  }

  #beginHeader(type: number, uncompressedBytes: number, storedBytes: number): ThriftWriter {
    this.#header.clear();
    const thrift = new ThriftWriter(this.#header);
    thrift.beginStruct();
    thrift.i32(1, type);
    thrift.i32(2, uncompressedBytes);
    thrift.i32(3, storedBytes);
    return thrift;
  }

  #endHeader(thrift: ThriftWriter, uncompressedBodyBytes: number): void {
    thrift.endStruct();
    const header = this.#header.view();
    this.#uncompressedBytes += header.length + uncompressedBodyBytes;
    this.#file.copy(header);
  }
}

function childOf(column: ListColumn, leaf: LeafLayout): LeafColumn {
  const child = leaf.child === null ? undefined : column.children[leaf.child];
  if (child === undefined) {
    throw new TypeError(`${leaf.path.join(".")}: no such column`);
  }
  return child;
}

/** Rows per page so that pages come near the target: a multiple of 8, as bitmaps want it. */
function rowsPerPage(rows: number, bytes: number): number {
  const pages = Math.max(1, Math.ceil(bytes / pageTargetBytes));
  return Math.max(8, Math.ceil(rows / pages / 8) * 8);
}

function flatStatistics(leaf: LeafLayout, column: LeafColumn, source: ValueSource): Statistics {
  switch (column.kind) {
    case "int64":
      if (source.dictionary !== null) {
        return constantStatistics(column.validity.nulls, source.dictionary.bytes);
      }
      return int64Statistics(column, leaf.unsigned);
    case "int32":
      return int32Statistics(column);
    case "run":
      return runStatistics(column, leaf.type === "run_utf8");
    case "float64":
    case "bool":
    case "utf8":
      return { nulls: column.validity.nulls, min: null, max: null };
  }
}
