/**
 * Reads the footer of a Parquet file of another writer, amends it and writes it again after the file's data.
 *
 * DuckDB gives bloom filters only to columns that it writes with a dictionary. Ids that differ from row to row have
 * none: their dictionary would make files larger and cost more than the filter saves. So {@link amendFooter} takes the
 * filters from a second, temporary file of the same row groups with only those columns. It also records the order of
 * the rows. https://github.com/apache/parquet-format/blob/master/BloomFilter.md
 */
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";

import { ByteBuffer } from "./byte-buffer.js";
import * as thrift from "./thrift-tree.js";

/** Field ids of parquet.thrift. */
const fileRowGroups = 4;
const groupColumns = 1;
const groupRows = 3;
const groupSorting = 4;
const chunkMetadata = 3;
const metadataPath = 3;
const metadataBloomOffset = 14;
const metadataBloomLength = 15;

/** `<length of the footer>PAR1` */
const tailBytes = 8;

interface Footer {
  readonly root: thrift.Node;
  /** Where it starts in the file. */
  readonly start: number;
}

function readAt(descriptor: number, start: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length;) {
    const count = readSync(descriptor, bytes, at, length - at, start + at);
    if (count === 0) {
      throw new RangeError("a Parquet file is cut off");
    }
    at += count;
  }
  return bytes;
}

function readFooter(descriptor: number): Footer {
  const { size } = fstatSync(descriptor);
  const tail = readAt(descriptor, size - tailBytes, tailBytes);
  if (tail.toString("latin1", 4) !== "PAR1") {
    throw new RangeError("not a Parquet file");
  }
  const length = tail.readUInt32LE(0);
  const start = size - tailBytes - length;
  return { root: thrift.readStruct(readAt(descriptor, start, length)), start };
}

/** The footer of a file. @throws RangeError when it is no Parquet file; the file system's errors */
export function footerOf(file: string): thrift.Node {
  const descriptor = openSync(file, "r");
  try {
    return readFooter(descriptor).root;
  } finally {
    closeSync(descriptor);
  }
}

/** Column chunks of a row group by name, lists left out. */
function chunksOf(group: thrift.Node): Map<string, { index: number; metadata: thrift.Node }> {
  const chunks = new Map<string, { index: number; metadata: thrift.Node }>();
  for (const [index, chunk] of thrift.itemsOf(thrift.fieldOf(group, groupColumns)).entries()) {
    const metadata = thrift.fieldOf(chunk, chunkMetadata);
    const path = thrift.itemsOf(thrift.fieldOf(metadata, metadataPath));
    const name = path.length === 1 ? thrift.textOf(path[0] ?? null) : null;
    if (metadata !== null && name !== null) {
      chunks.set(name, { index, metadata });
    }
  }
  return chunks;
}

/** A bloom filter, its header included; null when the chunk has none. */
function readBloomFilter(descriptor: number, metadata: thrift.Node): Buffer | null {
  const offset = thrift.integerOf(thrift.fieldOf(metadata, metadataBloomOffset));
  const length = thrift.integerOf(thrift.fieldOf(metadata, metadataBloomLength));
  return offset === null || length === null ? null : readAt(descriptor, offset, length);
}

function setField(node: thrift.Node, id: number, field: thrift.Field): void {
  if (node.kind === "struct") {
    node.fields.set(id, field);
  }
}

/** SortingColumn, ascending. */
function sortingColumn(index: number, nullsFirst: boolean): thrift.Node {
  const none: thrift.Node = { kind: "raw", bytes: new Uint8Array(0) };
  return {
    kind: "struct",
    fields: new Map([
      [1, thrift.integerField(thrift.types.i32, index)],
      [2, { type: thrift.types.boolFalse, node: none }],
      [3, { type: nullsFirst ? thrift.types.boolTrue : thrift.types.boolFalse, node: none }],
    ]),
  };
}

/**
 * Gives a file the bloom filters of `filters` (where it has none itself) and the order of its rows.
 * Bytes before the footer do not change. The caller syncs the file.
 *
 * @param sorted columns that the rows are sorted by, ascending, nulls first.
 * @throws {RangeError} when one of the files is not what it should be, or their row groups differ.
 */
export function amendFooter(file: string, filters: string, sorted: readonly string[]): void {
  const target = openSync(file, "r+");
  try {
    const source = openSync(filters, "r");
    try {
      amend(target, source, sorted);
    } finally {
      closeSync(source);
    }
  } finally {
    closeSync(target);
  }
}

function amend(target: number, source: number, sorted: readonly string[]): void {
  const { root, start } = readFooter(target);
  const groups = thrift.itemsOf(thrift.fieldOf(root, fileRowGroups));
  const filterGroups = thrift.itemsOf(thrift.fieldOf(readFooter(source).root, fileRowGroups));
  if (groups.length !== filterGroups.length) {
    throw new RangeError("the row groups differ");
  }
  const out = new ByteBuffer(64 * 1024);
  for (const [index, group] of groups.entries()) {
    const other = filterGroups[index] ?? null;
    const rows = thrift.integerOf(thrift.fieldOf(group, groupRows));
    if (rows === null || rows !== thrift.integerOf(thrift.fieldOf(other, groupRows))) {
      throw new RangeError("the row groups differ");
    }
    const chunks = chunksOf(group);
    if (other !== null) {
      addFilters(chunks, chunksOf(other), source, out, start);
    }
    const items = sorted.flatMap((name) => {
      const chunk = chunks.get(name);
      return chunk === undefined ? [] : [sortingColumn(chunk.index, true)];
    });
    setField(group, groupSorting, thrift.structsField(items));
  }
  const footerStart = out.length;
  thrift.writeStruct(out, root);
  out.uint32(out.length - footerStart);
  out.append(Buffer.from("PAR1", "latin1"));
  // Usually longer than the old footer, because fields were added; truncate in case it is not.
  writeAll(target, out.bytes.subarray(0, out.length), start);
  ftruncateSync(target, start + out.length);
}

function addFilters(
  chunks: ReturnType<typeof chunksOf>,
  others: ReturnType<typeof chunksOf>,
  source: number,
  out: ByteBuffer,
  start: number,
): void {
  for (const [name, { metadata }] of others) {
    const chunk = chunks.get(name);
    if (chunk === undefined || thrift.fieldOf(chunk.metadata, metadataBloomOffset) !== null) {
      continue;
    }
    const filter = readBloomFilter(source, metadata);
    if (filter === null) {
      continue;
    }
    setField(chunk.metadata, metadataBloomOffset, thrift.integerField(thrift.types.i64, start + out.length));
    setField(chunk.metadata, metadataBloomLength, thrift.integerField(thrift.types.i32, filter.length));
    out.append(filter);
  }
}

function writeAll(descriptor: number, bytes: Uint8Array, start: number): void {
  for (let at = 0; at < bytes.length;) {
    at += writeSync(descriptor, bytes, at, bytes.length - at, start + at);
  }
}
