/**
 * Files that this writer has broken: it used to leave out how long the texts of a page are where the page has none, and
 * readers refuse such a column. Of DELTA_LENGTH_BYTE_ARRAY the head of the lengths has to be there. Every other byte is
 * right, so putting it in gives back all rows. https://parquet.apache.org/docs/file-format/data-pages/encodings/
 */
import { ByteBuffer } from "./byte-buffer.js";
import { writeDeltaLengths } from "./encodings.js";
import { encoding, pageType } from "./format.js";
import { footerLength, magic, tailBytes } from "./row-groups.js";
import * as thrift from "./thrift-tree.js";

/** Field ids of parquet.thrift. */
const fileGroups = 4;
const groupFields = { columns: 1, bytes: 2, compressedBytes: 6 } as const;
const chunkFields = { fileOffset: 2, metadata: 3 } as const;
const metadataFields = { bytes: 6, compressedBytes: 7, dataOffset: 9, dictionaryOffset: 11 } as const;
const headerFields = { type: 1, bytes: 2, storedBytes: 3, dataV2: 8 } as const;
const dataFields = { entries: 1, nulls: 2, encoding: 4, definitionBytes: 5, repetitionBytes: 6 } as const;

/** Bytes in the place of others. */
interface Edit {
  readonly at: number;
  readonly removed: number;
  readonly bytes: Uint8Array;
}

/**
 * The file with the lengths that its pages lack.
 * @returns null when they lack none, or it is not a whole file of this writer
 */
export function mendPages(file: Buffer): Uint8Array | null {
  try {
    return mended(file);
  } catch (error) {
    if (error instanceof RangeError) {
      return null;
    }
    throw error;
  }
}

function mended(file: Buffer): Uint8Array | null {
  const tail = Math.max(0, file.length - tailBytes);
  const footerStart = tail - footerLength(file.subarray(tail));
  const root = thrift.readStruct(file.subarray(footerStart, tail));
  const pages = file.subarray(0, footerStart);
  const edits = groupsOf(root)
    .flatMap(columnsOf)
    .flatMap((chunk) => missingLengths(pages, placeOf(chunk)))
    .toSorted((a, b) => a.at - b.at || a.removed - b.removed);
  if (edits.length === 0) {
    return null;
  }
  const out = new ByteBuffer(file.length + 64 * 1024);
  let from = 0;
  for (const { at, removed, bytes } of edits) {
    out.append(file.subarray(from, at));
    out.append(bytes);
    from = at + removed;
  }
  out.append(file.subarray(from, footerStart));
  const newStart = out.length;
  thrift.writeStruct(out, movedFooter(root, edits));
  out.uint32(out.length - newStart);
  out.append(magic);
  return out.view();
}

const groupsOf = (root: thrift.Node): readonly thrift.Node[] => thrift.itemsOf(thrift.fieldOf(root, fileGroups));

const columnsOf = (group: thrift.Node): readonly thrift.Node[] =>
  thrift.itemsOf(thrift.fieldOf(group, groupFields.columns));

/** Where bytes of a file lie. */
interface Place {
  readonly start: number;
  readonly end: number;
}

/** The pages of a column chunk. */
function placeOf(chunk: thrift.Node): Place {
  const integer = (id: number): number | null =>
    thrift.integerOf(thrift.fieldOf(thrift.fieldOf(chunk, chunkFields.metadata), id));
  const start = integer(metadataFields.dictionaryOffset) ?? integer(metadataFields.dataOffset);
  const length = integer(metadataFields.compressedBytes);
  if (start === null || length === null) {
    throw new RangeError("a column chunk has no place");
  }
  return { start, end: start + length };
}

function missingLengths(file: Buffer, { start, end }: Place): Edit[] {
  const edits: Edit[] = [];
  let at = start;
  while (at < end) {
    const header = thrift.readStruct(file.subarray(at, end));
    const bytes = encoded(header);
    const stored = thrift.integerOf(thrift.fieldOf(header, headerFields.storedBytes));
    // How long it is shows by writing it again, if it was written as here.
    if (stored === null || stored < 0 || !file.subarray(at, at + bytes.length).equals(bytes)) {
      throw new RangeError("not a page of this writer");
    }
    const next = at + bytes.length + stored;
    if (lacksLengths(header, stored)) {
      const sizes = [headerFields.bytes, headerFields.storedBytes];
      const grown = thrift.withIntegers(header, sizes, (size) => size + noLengths.length);
      edits.push({ at, removed: bytes.length, bytes: encoded(grown) }, { at: next, removed: 0, bytes: noLengths });
    }
    at = next;
  }
  if (at !== end) {
    throw new RangeError("pages are longer than their column chunk");
  }
  return edits;
}

/** Whether a page of texts has nothing behind its levels. */
function lacksLengths(header: thrift.Node, stored: number): boolean {
  const page = thrift.fieldOf(header, headerFields.dataV2);
  const integer = (id: number): number => thrift.integerOf(thrift.fieldOf(page, id)) ?? 0;
  return (
    thrift.integerOf(thrift.fieldOf(header, headerFields.type)) === pageType.dataV2 &&
    integer(dataFields.encoding) === encoding.deltaLengthByteArray &&
    integer(dataFields.nulls) === integer(dataFields.entries) &&
    stored === integer(dataFields.definitionBytes) + integer(dataFields.repetitionBytes)
  );
}

const noLengths = lengthsOfNone();

function lengthsOfNone(): Uint8Array {
  const out = new ByteBuffer(16);
  writeDeltaLengths(out, new Int32Array(0), 0, 0, 0);
  return out.view();
}

function encoded(node: thrift.Node): Uint8Array {
  const out = new ByteBuffer(256);
  thrift.writeStruct(out, node);
  return out.view();
}

/** The footer, with places and sizes as the edits make them. */
function movedFooter(root: thrift.Node, edits: readonly Edit[]): thrift.Node {
  // What is put in at the end of a page belongs to that, and not to what begins there.
  const moved = (offset: number): number =>
    edits.reduce(
      (sum, { at, removed, bytes }) =>
        at < offset || (at === offset && removed === 0) ? sum + bytes.length - removed : sum,
      offset,
    );
  const groups = groupsOf(root).map((group) => {
    let growth = 0;
    const columns = columnsOf(group).map((chunk) => {
      const { start, end } = placeOf(chunk);
      const by = moved(end) - moved(start) - (end - start);
      growth += by;
      const { bytes, compressedBytes, dataOffset, dictionaryOffset } = metadataFields;
      const old = thrift.fieldOf(chunk, chunkFields.metadata) ?? root;
      const placed = thrift.withIntegers(old, [dataOffset, dictionaryOffset], moved);
      const metadata = thrift.withIntegers(placed, [bytes, compressedBytes], (size) => size + by);
      return thrift.withFields(thrift.withIntegers(chunk, [chunkFields.fileOffset], moved), [
        [chunkFields.metadata, { type: thrift.types.struct, node: metadata }],
      ]);
    });
    const sized = thrift.withIntegers(group, [groupFields.bytes, groupFields.compressedBytes], (size) => size + growth);
    return thrift.withFields(sized, [[groupFields.columns, thrift.structsField(columns)]]);
  });
  return thrift.withFields(root, [[fileGroups, thrift.structsField(groups)]]);
}
