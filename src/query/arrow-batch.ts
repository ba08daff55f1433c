/**
 * Record batches as Flight sends them: pieces of columns are laid out once, straight into the bytes of
 * a FlightData message (Flight.proto), so that nothing is copied between here and the socket but by
 * gRPC itself. Hot code.
 */
import {
  type ArrowField,
  encodeDictionaryBatchMessage,
  encodeRecordBatchMessage,
  encodeSchemaMessage,
} from "../wire/flight-arrow.js";
import { flightDataFrame } from "../wire/flight-protobuf.js";
import type { ArrowDictionary, Piece } from "./arrow-read.js";
import { copyBits } from "./arrow-vectors.js";

/** Bytes of a piece's buffers: what it adds to a batch. */
export function bytesOfPiece(piece: Piece): number {
  let bytes =
    (piece.validity?.length ?? 0) +
    (piece.values?.length ?? 0) +
    (piece.ends?.byteLength ?? 0) +
    (piece.bytes?.length ?? 0);
  for (const child of piece.children) bytes += bytesOfPiece(child);
  return bytes;
}

/** The FlightData message that comes first: the schema. */
export function encodeSchema(fields: readonly ArrowField[]): Uint8Array<ArrayBuffer> {
  return flightDataFrame(encodeSchemaMessage(fields), 0).message;
}

/** One FlightData message that holds a whole dictionary of texts; it goes before any batch that refers to it. */
export function encodeDictionary({ id, texts }: ArrowDictionary): Uint8Array<ArrayBuffer> {
  const layout: Layout = { nodes: [texts.length, 0], buffers: [], writes: [], bodyBytes: 0 };
  const offsets = new Int32Array(texts.length + 1);
  for (const [i, text] of texts.entries()) offsets[i + 1] = offsets[i]! + text.length;
  reserve(layout, 0, () => undefined);
  reserve(layout, offsets.byteLength, (target) => {
    target.set(new Uint8Array(offsets.buffer));
  });
  reserve(layout, offsets[texts.length]!, (target) => {
    for (const [i, text] of texts.entries()) target.set(text, offsets[i]);
  });
  const { nodes, buffers, writes, bodyBytes } = layout;
  const header = encodeDictionaryBatchMessage(id, texts.length, nodes, buffers, bodyBytes);
  const { message, body } = flightDataFrame(header, bodyBytes);
  for (const write of writes) write(body);
  return message;
}

/**
 * One FlightData message that holds a record batch.
 * @param columns for each field the pieces of its column, in order
 */
export function encodeBatch(
  fields: readonly ArrowField[],
  columns: readonly (readonly Piece[])[],
  rows: number,
): Uint8Array<ArrayBuffer> {
  const layout: Layout = { nodes: [], buffers: [], writes: [], bodyBytes: 0 };
  for (const [index, field] of fields.entries()) place(layout, field, columns[index] ?? []);
  const header = encodeRecordBatchMessage(rows, layout.nodes, layout.buffers, layout.bodyBytes);
  const { message, body } = flightDataFrame(header, layout.bodyBytes);
  for (const write of layout.writes) write(body);
  return message;
}

interface Layout {
  /** Rows and nulls of each field, depth first (Message.fbs FieldNode). */
  readonly nodes: number[];
  /** Offset and length of each buffer. */
  readonly buffers: number[];
  readonly writes: ((body: Uint8Array) => void)[];
  bodyBytes: number;
}

/**
 * Takes room in the body, aligned to 8 bytes as the format asks.
 * @param write writes every byte of its target: the body's memory held something else before
 */
function reserve(layout: Layout, bytes: number, write: (target: Uint8Array) => void): void {
  const offset = layout.bodyBytes;
  const end = (offset + bytes + 7) & ~7;
  layout.buffers.push(offset, bytes);
  if (bytes > 0) {
    layout.writes.push((body) => {
      write(body.subarray(offset, offset + bytes));
      for (let i = offset + bytes; i < end; i++) body[i] = 0;
    });
  }
  layout.bodyBytes = end;
}

/** Takes room for so many bits, which are 0 until they are written. */
function reserveBits(layout: Layout, bits: number, write: (target: Uint8Array) => void): void {
  reserve(layout, (bits + 7) >> 3, (target) => {
    target.fill(0);
    write(target);
  });
}

function place(layout: Layout, field: ArrowField, pieces: readonly Piece[]): void {
  let rows = 0;
  let nulls = 0;
  for (const piece of pieces) {
    rows += piece.rows;
    nulls += piece.nulls;
  }
  layout.nodes.push(rows, nulls);
  if (field.type.kind === "null") return;
  if (field.type.kind === "union") {
    // Neither has a union a validity of its own: its children do.
    placeBytes(layout, pieces, (piece) => piece.values);
    if (field.type.mode === "dense") placeBytes(layout, pieces, (piece) => unionOffsets(piece));
    placeChildren(layout, field, pieces);
    return;
  }
  placeValidity(layout, pieces, rows, nulls);
  if (field.dictionary !== undefined) {
    placeBytes(layout, pieces, (piece) => piece.values);
    return;
  }
  switch (field.type.kind) {
    case "bool":
      reserveBits(layout, rows, (target) => {
        let at = 0;
        for (const piece of pieces) {
          if (piece.values !== null) copyBits(target, at, piece.values, 0, piece.rows);
          at += piece.rows;
        }
      });
      return;
    case "utf8":
    case "binary":
      placeOffsets(layout, pieces, rows);
      placeBytes(layout, pieces, (piece) => piece.bytes);
      return;
    case "list":
    case "map":
      placeOffsets(layout, pieces, rows);
      break;
    case "struct":
    case "fixed_size_list":
      break;
    case "int":
    case "float":
    case "decimal":
    case "date32":
    case "time32":
    case "time64":
    case "timestamp":
    case "interval":
      placeBytes(layout, pieces, (piece) => piece.values);
      return;
  }
  placeChildren(layout, field, pieces);
}

function placeChildren(layout: Layout, field: ArrowField, pieces: readonly Piece[]): void {
  for (const [index, child] of field.children.entries()) {
    place(
      layout,
      child,
      pieces.flatMap((piece) => piece.children[index] ?? []),
    );
  }
}

/** Offsets into the children are written for a single piece: only metadata has dense unions, in one batch. */
function unionOffsets({ ends }: Piece): Uint8Array | null {
  return ends === null ? null : new Uint8Array(ends.buffer, ends.byteOffset, ends.byteLength);
}

function placeValidity(
  layout: Layout,
  pieces: readonly Piece[],
  rows: number,
  nulls: number,
): void {
  reserveBits(layout, nulls === 0 ? 0 : rows, (target) => {
    let at = 0;
    for (const piece of pieces) {
      if (piece.validity === null) setBits(target, at, piece.rows);
      else copyBits(target, at, piece.validity, 0, piece.rows);
      at += piece.rows;
    }
  });
}

function setBits(target: Uint8Array, from: number, count: number): void {
  let bit = from;
  const end = from + count;
  while (bit < end && (bit & 7) !== 0) {
    target[bit >> 3] = target[bit >> 3]! | (1 << (bit & 7));
    bit++;
  }
  target.fill(0xff, bit >> 3, end >> 3);
  for (bit = Math.max(bit, end & ~7); bit < end; bit++) {
    target[bit >> 3] = target[bit >> 3]! | (1 << (bit & 7));
  }
}

function placeOffsets(layout: Layout, pieces: readonly Piece[], rows: number): void {
  reserve(layout, (rows + 1) * 4, (target) => {
    const offsets = new Int32Array(target.buffer, target.byteOffset, rows + 1);
    offsets[0] = 0;
    let at = 1;
    let base = 0;
    for (const { ends } of pieces) {
      if (ends === null) continue;
      if (base === 0) offsets.set(ends, at);
      else for (let i = 0; i < ends.length; i++) offsets[at + i] = base + ends[i]!;
      at += ends.length;
      base = offsets[at - 1]!;
    }
    if (at !== rows + 1) throw new Error(`offsets of ${at - 1} rows for ${rows}`);
  });
}

function placeBytes(
  layout: Layout,
  pieces: readonly Piece[],
  pick: (piece: Piece) => Uint8Array | null,
): void {
  let bytes = 0;
  for (const piece of pieces) bytes += pick(piece)?.length ?? 0;
  reserve(layout, bytes, (target) => {
    let at = 0;
    for (const piece of pieces) {
      const part = pick(piece);
      if (part === null) continue;
      target.set(part, at);
      at += part.length;
    }
  });
}
