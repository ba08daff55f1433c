/**
 * Joining sorted objects: the row groups of some Parquet files, byte for byte, one file behind the other. Only the
 * offsets in the footer change, so a row costs what its bytes cost to copy. Row groups stay as they were: each is sorted,
 * and their bounds may overlap where those of the files did.
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
 */
import { type FileHandle, open } from "node:fs/promises";

import { ServiceError } from "../../runtime/errors.js";
import { ByteBuffer } from "./byte-buffer.js";
import { footerLength, magic, tailBytes } from "./row-groups.js";
import * as thrift from "./thrift-tree.js";

/** Field ids of parquet.thrift. */
const fileFields = { rows: 3, groups: 4, keyValues: 5 } as const;
const keyValueFields = { key: 1, value: 2 } as const;
const groupFields = { columns: 1, fileOffset: 5, ordinal: 7 } as const;
const chunkFields = { fileOffset: 2, metadata: 3, offsetIndex: 4, columnIndexLength: 7 } as const;
/** Of pages, of a dictionary, of indexes, of bloom filters. */
const metadataOffsets = [9, 10, 11, 14] as const;

const binary = 8;
/** Fields of a footer that say nothing of the form of its rows. */
const omitted: readonly number[] = Object.values(fileFields);

const copyBytes = 4 << 20;

/** A file that may be joined with others. */
export interface JoinableFile {
  readonly file: string;
  readonly rows: number;
  /** Files can be joined when theirs are equal: columns, types and what else the footer says, but for keys and values. */
  readonly form: string;
  readonly root: thrift.Node;
  /** Where the footer begins. */
  readonly dataEnd: number;
}

/** Reads the footer of a file. @throws RangeError when it is no Parquet file; the file system's errors */
export async function readJoinable(file: string): Promise<JoinableFile> {
  const handle = await open(file, "r");
  try {
    const { size } = await handle.stat();
    const tail = await readAt(handle, Math.max(0, size - tailBytes), Math.min(size, tailBytes));
    const length = footerLength(tail);
    const dataEnd = size - tailBytes - length;
    if (dataEnd < magic.length) {
      throw new RangeError("a footer is longer than its file");
    }
    const root = thrift.readStruct(await readAt(handle, dataEnd, length));
    return {
      file,
      rows: thrift.integerOf(thrift.fieldOf(root, fileFields.rows)) ?? 0,
      form: formOf(root),
      root,
      dataEnd,
    };
  } finally {
    await handle.close();
  }
}

/**
 * Writes a new file with the row groups of `files`, in their order; each is read before the next is asked for. The caller
 * syncs it.
 * @param keyValues what its footer says beside
 * @throws ServiceError CANCELLED; TypeError when their forms differ; the file system's errors. Then a part may remain.
 */
export async function joinFiles(
  files: readonly JoinableFile[] | AsyncIterable<JoinableFile>,
  target: string,
  keyValues: Readonly<Record<string, string>>,
  cancelled: () => boolean = () => false,
): Promise<void> {
  const out = await open(target, "wx");
  try {
    await out.writeFile(magic);
    let at = magic.length;
    let first: JoinableFile | null = null;
    let rowCount = 0;
    const groups: thrift.Node[] = [];
    for await (const joinable of files) {
      first ??= joinable;
      const { file, root, dataEnd, form, rows } = joinable;
      if (form !== first.form) {
        throw differentForms();
      }
      const by = at - magic.length;
      for (const group of thrift.itemsOf(thrift.fieldOf(root, fileFields.groups))) {
        groups.push(movedGroup(group, by));
      }
      await copyData(file, dataEnd, out, cancelled);
      at += dataEnd - magic.length;
      rowCount += rows;
    }
    if (first?.root.kind !== "struct") {
      throw differentForms();
    }
    const fields = new Map(first.root.fields);
    fields.set(fileFields.rows, thrift.integerField(thrift.types.i64, rowCount));
    fields.set(fileFields.groups, thrift.structsField(groups));
    fields.set(fileFields.keyValues, thrift.structsField(Object.entries(keyValues).map(keyValue)));
    const footer = new ByteBuffer(64 * 1024);
    thrift.writeStruct(footer, { kind: "struct", fields });
    footer.uint32(footer.length);
    footer.append(magic);
    await out.writeFile(footer.bytes.subarray(0, footer.length));
  } finally {
    await out.close();
  }
}

const differentForms = (): TypeError => new TypeError("files of different forms cannot be joined");

/** What a footer says beside the row groups. */
function formOf(root: thrift.Node): string {
  if (root.kind !== "struct") {
    throw new RangeError("not a footer");
  }
  const fields = new Map([...root.fields].filter(([id]) => !omitted.includes(id)));
  const out = new ByteBuffer(4096);
  thrift.writeStruct(out, { kind: "struct", fields });
  return Buffer.from(out.bytes.subarray(0, out.length)).toString("base64");
}

function keyValue([key, value]: readonly [string, string]): thrift.Node {
  const text = (content: string): thrift.Field => {
    const bytes = Buffer.from(content);
    const out = new ByteBuffer(bytes.length + 10);
    out.varint(bytes.length);
    out.append(bytes);
    return { type: binary, node: { kind: "raw", bytes: out.bytes.slice(0, out.length) } };
  };
  return {
    kind: "struct",
    fields: new Map([
      [keyValueFields.key, text(key)],
      [keyValueFields.value, text(value)],
    ]),
  };
}

/** A row group whose bytes have moved. */
function movedGroup(group: thrift.Node, by: number): thrift.Node {
  const moved = movedFields(group, [groupFields.fileOffset], by);
  // Numbers of row groups within a file are optional, and would be wrong now.
  moved.delete(groupFields.ordinal);
  const columns = thrift.itemsOf(thrift.fieldOf(group, groupFields.columns)).map((chunk): thrift.Node => {
    const fields = movedFields(chunk, [chunkFields.fileOffset], by);
    // Indexes of pages hold offsets of their own, and nobody here writes any.
    for (let id: number = chunkFields.offsetIndex; id <= chunkFields.columnIndexLength; id++) {
      fields.delete(id);
    }
    const metadata = fields.get(chunkFields.metadata);
    if (metadata !== undefined) {
      const node: thrift.Node = { kind: "struct", fields: movedFields(metadata.node, metadataOffsets, by) };
      fields.set(chunkFields.metadata, { type: metadata.type, node });
    }
    return { kind: "struct", fields };
  });
  moved.set(groupFields.columns, thrift.structsField(columns));
  return { kind: "struct", fields: moved };
}

/** The fields of a struct, some of them offsets that move; zero is none. */
function movedFields(node: thrift.Node, offsets: readonly number[], by: number): Map<number, thrift.Field> {
  const moved = thrift.withIntegers(node, offsets, (offset) => (offset > 0 ? offset + by : offset));
  return new Map(moved.kind === "struct" ? moved.fields : []);
}

/** Everything between the first magic number and the footer. */
async function copyData(file: string, end: number, out: FileHandle, cancelled: () => boolean): Promise<void> {
  const source = await open(file, "r");
  try {
    const buffer = Buffer.allocUnsafe(Math.min(copyBytes, end));
    for (let at = magic.length; at < end;) {
      if (cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      const { bytesRead } = await source.read(buffer, 0, Math.min(buffer.length, end - at), at);
      if (bytesRead === 0) {
        throw new RangeError("a Parquet file is cut off");
      }
      await out.writeFile(buffer.subarray(0, bytesRead));
      at += bytesRead;
    }
  } finally {
    await source.close();
  }
}

async function readAt(handle: FileHandle, start: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  for (let at = 0; at < length;) {
    const { bytesRead } = await handle.read(buffer, at, length - at, start + at);
    if (bytesRead === 0) {
      throw new RangeError("a Parquet file is cut off");
    }
    at += bytesRead;
  }
  return buffer;
}
