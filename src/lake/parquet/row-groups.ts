/**
 * The footer of a Parquet file as a list of row groups to choose from: where the bytes of each lie, and which times it
 * holds; and a footer that names the chosen ones alone, for a file that has only their bytes, in their places.
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
 */
import { asBuffer } from "telemetry-service-client/shared/as-buffer";
import { ByteBuffer } from "./byte-buffer.js";
import * as thrift from "./thrift-tree.js";

/** A part of a file. */
export interface FilePart {
  readonly start: number;
  readonly length: number;
}

/** A row group of a file. */
interface RowGroup {
  /** Its column chunks, and its bloom filters. */
  readonly parts: readonly FilePart[];
  /** Bounds of its column `time`, nanoseconds since 1970 UTC; null when they are not told. */
  readonly times: { readonly min: bigint; readonly max: bigint } | null;
}

/** Field ids of parquet.thrift. */
const fileFields = { schema: 2, rows: 3, groups: 4 } as const;
const elementFields = { name: 4, children: 5, logicalType: 10 } as const;
const groupFields = { columns: 1, rows: 3 } as const;
const chunkFields = { filePath: 1, metadata: 3, offsetIndex: 4, columnIndexLength: 7, crypto: 8 } as const;
const metadataFields = {
  type: 1,
  path: 3,
  bytes: 6,
  compressedBytes: 7,
  dataOffset: 9,
  indexOffset: 10,
  dictionaryOffset: 11,
  statistics: 12,
  bloomOffset: 14,
  bloomLength: 15,
} as const;
const statisticsFields = { max: 5, min: 6 } as const;
const timestampType = 8;
const timestampUnit = 2;
const nanoseconds = 3;
const int64 = 2;

/** `<length of the footer>PAR1` */
export const tailBytes = 8;
export const magic = Buffer.from("PAR1", "latin1");

/**
 * Length of the footer of a file that ends with `tail`, {@link tailBytes} excluded.
 * @throws RangeError when it is not the end of a Parquet file
 */
export function footerLength(tail: Uint8Array): number {
  const view = asBuffer(tail);
  if (view.length < tailBytes || !view.subarray(-4).equals(magic)) {
    throw new RangeError("not a Parquet file");
  }
  return view.readUInt32LE(view.length - tailBytes);
}

/** A footer, taken apart. */
export interface ParsedFooter {
  readonly root: thrift.Node;
  readonly groups: readonly RowGroup[];
  /** Of all row groups. */
  readonly rows: number;
}

/**
 * Takes a footer apart, without its {@link tailBytes}.
 * @throws RangeError when it is none, or when not all bytes of a row group can be told from it
 */
export function parseFooter(footer: Uint8Array): ParsedFooter {
  const root = thrift.readStruct(footer);
  const exact = hasNanoseconds(root);
  const items = thrift.itemsOf(thrift.fieldOf(root, fileFields.groups));
  const groups = items.map((group): RowGroup => {
    const parts: FilePart[] = [];
    let times: RowGroup["times"] = null;
    for (const chunk of thrift.itemsOf(thrift.fieldOf(group, groupFields.columns))) {
      const metadata = thrift.fieldOf(chunk, chunkFields.metadata);
      if (metadata === null || thrift.fieldOf(chunk, chunkFields.filePath) !== null) {
        throw new RangeError("a column chunk lies elsewhere");
      }
      if (thrift.fieldOf(chunk, chunkFields.crypto) !== null) {
        throw new RangeError("a column chunk is encrypted");
      }
      parts.push(...partsOf(metadata));
      const path = thrift.itemsOf(thrift.fieldOf(metadata, metadataFields.path));
      if (exact && path.length === 1 && thrift.textOf(path[0] ?? null) === "time") {
        times = timesOf(metadata);
      }
    }
    return { parts, times };
  });
  return { root, groups, rows: rowsOf(items) };
}

/** How large a row group is. */
export interface GroupSize {
  readonly rows: number;
  /** Of its widest column, before compression. */
  readonly bytes: number;
}

/** The sizes of the row groups that a footer names. */
export function groupSizes(root: thrift.Node): GroupSize[] {
  return thrift.itemsOf(thrift.fieldOf(root, fileFields.groups)).map((group) => {
    const chunks = thrift.itemsOf(thrift.fieldOf(group, groupFields.columns));
    const bytes = chunks.map((chunk) =>
      thrift.integerOf(thrift.fieldOf(thrift.fieldOf(chunk, chunkFields.metadata), metadataFields.bytes)),
    );
    return { rows: rowsOf([group]), bytes: Math.max(0, ...bytes.map(Number)) };
  });
}

function rowsOf(groups: readonly thrift.Node[]): number {
  return groups.reduce((sum, group) => sum + (thrift.integerOf(thrift.fieldOf(group, groupFields.rows)) ?? 0), 0);
}

function partsOf(metadata: thrift.Node): FilePart[] {
  const integer = (id: number): number | null => thrift.integerOf(thrift.fieldOf(metadata, id));
  const length = integer(metadataFields.compressedBytes);
  const offsets = [metadataFields.dataOffset, metadataFields.indexOffset, metadataFields.dictionaryOffset]
    .map(integer)
    .filter((offset) => offset !== null && offset > 0);
  if (length === null || offsets.length === 0) {
    throw new RangeError("a column chunk has no place");
  }
  const start = Math.min(...offsets.map(Number));
  const bloomOffset = integer(metadataFields.bloomOffset);
  const bloomLength = integer(metadataFields.bloomLength);
  if (bloomOffset === null) {
    return [{ start, length }];
  }
  if (bloomLength === null) {
    throw new RangeError("a bloom filter has no length");
  }
  return [
    { start, length },
    { start: bloomOffset, length: bloomLength },
  ];
}

function timesOf(metadata: thrift.Node): RowGroup["times"] {
  const statistics = thrift.fieldOf(metadata, metadataFields.statistics);
  const min = int64Of(thrift.fieldOf(statistics, statisticsFields.min));
  const max = int64Of(thrift.fieldOf(statistics, statisticsFields.max));
  const plain = thrift.integerOf(thrift.fieldOf(metadata, metadataFields.type)) === int64;
  return min === null || max === null || !plain ? null : { min, max };
}

/** A binary of eight bytes, behind its length. */
function int64Of(node: thrift.Node | null): bigint | null {
  return node?.kind === "raw" && node.bytes.length === 9 && node.bytes[0] === 8
    ? Buffer.from(node.bytes).readBigInt64LE(1)
    : null;
}

/** Whether the column `time` counts nanoseconds. */
function hasNanoseconds(root: thrift.Node): boolean {
  return thrift.itemsOf(thrift.fieldOf(root, fileFields.schema)).some((element) => {
    const unit = thrift.fieldOf(
      thrift.fieldOf(thrift.fieldOf(element, elementFields.logicalType), timestampType),
      timestampUnit,
    );
    return (
      thrift.textOf(thrift.fieldOf(element, elementFields.name)) === "time" &&
      thrift.fieldOf(unit, nanoseconds) !== null
    );
  });
}

/** The footer of a file with some of the row groups of another, and the bytes that end a file. */
export function footerOf({ root }: ParsedFooter, kept: readonly number[]): Uint8Array {
  if (root.kind !== "struct") {
    throw new TypeError("not a footer");
  }
  const all = thrift.itemsOf(thrift.fieldOf(root, fileFields.groups));
  const items = kept.flatMap((index) => {
    const group = all[index];
    return group === undefined ? [] : [withoutIndexes(group)];
  });
  const fields = new Map(root.fields);
  fields.set(fileFields.rows, thrift.integerField(thrift.types.i64, rowsOf(items)));
  fields.set(fileFields.groups, thrift.structsField(items));
  const out = new ByteBuffer(64 * 1024);
  thrift.writeStruct(out, { kind: "struct", fields });
  out.uint32(out.length);
  out.append(magic);
  return out.bytes.slice(0, out.length);
}

/** Indexes of pages are parts of the file that nobody here needs. */
function withoutIndexes(group: thrift.Node): thrift.Node {
  if (group.kind !== "struct") {
    return group;
  }
  const columns = thrift.itemsOf(thrift.fieldOf(group, groupFields.columns)).map((chunk): thrift.Node => {
    if (chunk.kind !== "struct") {
      return chunk;
    }
    const isIndex = (id: number): boolean => id >= chunkFields.offsetIndex && id <= chunkFields.columnIndexLength;
    return { kind: "struct", fields: new Map([...chunk.fields].filter(([id]) => !isIndex(id))) };
  });
  return thrift.withFields(group, [[groupFields.columns, thrift.structsField(columns)]]);
}
