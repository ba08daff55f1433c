/**
 * Parquet files straight from column builders: one row group, one column chunk per leaf, footer.
 * https://github.com/apache/parquet-format
 */
import { serviceVersion } from "../../runtime/version.js";
import type { Column } from "../tables/columns.js";
import type { ColumnsOf, TableName, tables } from "../tables/tables.js";
import { ByteBuffer, ChunkList } from "./byte-buffer.js";
import { type ColumnChunk, ColumnChunkWriter, type Compression } from "./column-chunk.js";
import { type TableLayout, tableLayouts } from "./layout.js";
import { thriftElement, ThriftWriter } from "./thrift.js";

/** A finished file, not yet on disk. */
export interface ParquetFile {
  /**
   * The file's bytes in order. Large chunks are views of the builders' memory: write them before the
   * builders are reset or written to again.
   */
  readonly chunks: Uint8Array[];
  readonly bytes: number;
  readonly rowCount: number;
  /** Bounds of the column `time`; both 0 without rows. */
  readonly minTimeNs: bigint;
  readonly maxTimeNs: bigint;
  /** SHA-256 of the table's definition, in hex. */
  readonly schemaHash: string;
}

const magic = Buffer.from("PAR1");
const createdBy = Buffer.from(`telemetry-service version ${serviceVersion()}`);

/**
 * Encodes `rows` rows of a table. Every column must hold exactly that many.
 *
 * @throws TypeError when a column is missing or holds another number of rows: a fault of the caller.
 */
export function encodeTable<T extends TableName>(
  table: T,
  columns: ColumnsOf<(typeof tables)[T]>,
  rows: number,
  options: { compression: Compression },
): ParquetFile {
  return encodeColumns(tableLayouts[table], columns, rows, options.compression);
}

/** `encodeTable` for any layout. */
export function encodeColumns(
  layout: TableLayout,
  columns: Readonly<Record<string, Column>>,
  rows: number,
  compression: Compression,
): ParquetFile {
  const file = new ChunkList(32 * 1024);
  file.copy(magic);
  const chunks: ColumnChunk[] = [];
  if (rows > 0) {
    const writer = new ColumnChunkWriter(file, compression);
    for (const leaf of layout.leaves) {
      const column = columns[leaf.column];
      if (column?.rows !== rows) {
        throw new TypeError(`column ${leaf.column} holds ${column?.rows ?? "no"} rows, not ${rows}`);
      }
      chunks.push(writer.write(leaf, column));
    }
  }
  writeFooter(file, layout, chunks, rows);
  const time = chunks.find(({ leaf }) => leaf.column === "time" && leaf.child === null);
  return {
    chunks: file.finish(),
    bytes: file.bytes,
    rowCount: rows,
    minTimeNs: readInt64(time?.statistics?.min),
    maxTimeNs: readInt64(time?.statistics?.max),
    schemaHash: layout.schemaHash,
  };
}

function readInt64(bytes: Uint8Array | null | undefined): bigint {
  if (bytes === null || bytes === undefined) {
    return 0n;
  }
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigInt64(0, true);
}

/** FileMetaData, its length and the closing magic. */
function writeFooter(file: ChunkList, layout: TableLayout, chunks: readonly ColumnChunk[], rows: number): void {
  const thrift = new ThriftWriter(new ByteBuffer());
  thrift.beginStruct();
  thrift.encodedFields(layout.metadataHead, 2);
  thrift.i64(3, rows);
  thrift.listField(4, thriftElement.struct, chunks.length === 0 ? 0 : 1);
  if (chunks.length > 0) {
    writeRowGroup(thrift, chunks, rows);
  }
  thrift.binary(6, createdBy);
  // ColumnOrder TYPE_ORDER for every leaf: without it readers must ignore min_value and max_value.
  thrift.listField(7, thriftElement.struct, layout.leaves.length);
  for (let i = 0; i < layout.leaves.length; i++) {
    thrift.beginStruct();
    thrift.emptyStruct(1);
    thrift.endStruct();
  }
  thrift.endStruct();
  const metadataBytes = thrift.out.length;
  thrift.out.uint32(metadataBytes);
  thrift.out.append(magic);
  file.copy(thrift.out.view());
}

function writeRowGroup(thrift: ThriftWriter, chunks: readonly ColumnChunk[], rows: number): void {
  let uncompressedBytes = 0;
  let compressedBytes = 0;
  thrift.beginStruct();
  thrift.listField(1, thriftElement.struct, chunks.length);
  for (const chunk of chunks) {
    uncompressedBytes += chunk.uncompressedBytes;
    compressedBytes += chunk.compressedBytes;
    writeColumnChunk(thrift, chunk);
  }
  thrift.i64(2, uncompressedBytes);
  thrift.i64(3, rows);
  thrift.i64(5, magic.length);
  thrift.i64(6, compressedBytes);
  thrift.i16(7, 0);
  thrift.endStruct();
}

function writeColumnChunk(thrift: ThriftWriter, chunk: ColumnChunk): void {
  thrift.beginStruct();
  thrift.i64(2, chunk.dictionaryPageOffset ?? chunk.dataPageOffset);
  thrift.structField(3);
  thrift.i32(1, chunk.leaf.physical);
  thrift.listField(2, thriftElement.i32, chunk.encodings.length);
  for (const encoding of chunk.encodings) {
    thrift.out.zigzag(encoding);
  }
  thrift.encodedFields(chunk.leaf.encodedPath, 3);
  thrift.i32(4, chunk.codec);
  thrift.i64(5, chunk.entries);
  thrift.i64(6, chunk.uncompressedBytes);
  thrift.i64(7, chunk.compressedBytes);
  thrift.i64(9, chunk.dataPageOffset);
  if (chunk.dictionaryPageOffset !== null) {
    thrift.i64(11, chunk.dictionaryPageOffset);
  }
  if (chunk.statistics !== null) {
    const { nulls, min, max } = chunk.statistics;
    thrift.structField(12);
    thrift.i64(3, nulls);
    if (max !== null) {
      thrift.binary(5, max);
    }
    if (min !== null) {
      thrift.binary(6, min);
    }
    thrift.endStruct();
  }
  thrift.endStruct();
  thrift.endStruct();
}
