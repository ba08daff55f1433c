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
import {
  readThriftStruct,
  type ThriftField,
  thriftField,
  thriftInteger,
  thriftItems,
  type ThriftNode,
  thriftText,
  thriftType,
  writeThriftStruct,
} from "./thrift-tree.js";

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
  readonly root: ThriftNode;
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
  return { root: readThriftStruct(readAt(descriptor, start, length), 0).node, start };
}

/** Column chunks of a row group by name, lists left out. */
function chunksOf(group: ThriftNode): Map<string, { index: number; metadata: ThriftNode }> {
  const chunks = new Map<string, { index: number; metadata: ThriftNode }>();
  for (const [index, chunk] of thriftItems(thriftField(group, groupColumns)).entries()) {
    const metadata = thriftField(chunk, chunkMetadata);
    const path = thriftItems(thriftField(metadata, metadataPath));
    const name = path.length === 1 ? thriftText(path[0] ?? null) : null;
    if (metadata !== null && name !== null) {
      chunks.set(name, { index, metadata });
    }
  }
  return chunks;
}

/** A bloom filter, its header included; null when the chunk has none. */
function readBloomFilter(descriptor: number, metadata: ThriftNode): Buffer | null {
  const offset = thriftInteger(thriftField(metadata, metadataBloomOffset));
  const length = thriftInteger(thriftField(metadata, metadataBloomLength));
  return offset === null || length === null ? null : readAt(descriptor, offset, length);
}

function integerField(type: number, value: number): ThriftField {
  const buffer = new ByteBuffer(16);
  buffer.zigzag(value);
  return { type, node: { kind: "raw", bytes: buffer.bytes.slice(0, buffer.length) } };
}

function setField(node: ThriftNode, id: number, field: ThriftField): void {
  if (node.kind === "struct") {
    node.fields.set(id, field);
  }
}

/** SortingColumn, ascending. */
function sortingColumn(index: number, nullsFirst: boolean): ThriftNode {
  const none: ThriftNode = { kind: "raw", bytes: new Uint8Array(0) };
  return {
    kind: "struct",
    fields: new Map([
      [1, integerField(thriftType.i32, index)],
      [2, { type: thriftType.boolFalse, node: none }],
      [3, { type: nullsFirst ? thriftType.boolTrue : thriftType.boolFalse, node: none }],
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
  const groups = thriftItems(thriftField(root, fileRowGroups));
  const filterGroups = thriftItems(thriftField(readFooter(source).root, fileRowGroups));
  if (groups.length !== filterGroups.length) {
    throw new RangeError("the row groups differ");
  }
  const out = new ByteBuffer(64 * 1024);
  for (const [index, group] of groups.entries()) {
    const other = filterGroups[index] ?? null;
    const rows = thriftInteger(thriftField(group, groupRows));
    if (rows === null || rows !== thriftInteger(thriftField(other, groupRows))) {
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
    setField(group, groupSorting, {
      type: thriftType.list,
      node: { kind: "list", elementType: thriftType.struct, items },
    });
  }
  const footerStart = out.length;
  writeThriftStruct(out, root);
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
    if (chunk === undefined || thriftField(chunk.metadata, metadataBloomOffset) !== null) {
      continue;
    }
    const filter = readBloomFilter(source, metadata);
    if (filter === null) {
      continue;
    }
    setField(chunk.metadata, metadataBloomOffset, integerField(thriftType.i64, start + out.length));
    setField(chunk.metadata, metadataBloomLength, integerField(thriftType.i32, filter.length));
    out.append(filter);
  }
}

function writeAll(descriptor: number, bytes: Uint8Array, start: number): void {
  for (let at = 0; at < bytes.length;) {
    at += writeSync(descriptor, bytes, at, bytes.length - at, start + at);
  }
}
