/**
 * Record batches as Flight sends them: pieces of columns are laid out in one message, each buffer copied once from
 * DuckDB's memory to its place. Hot code: a buffer of a piece costs one memcpy; offsets of all but the first piece, and
 * bits that do not begin with a byte, pass through JavaScript (0.5 ns a row).
 *
 * The memory of a message is used again for the next one.
 */
import {
  type BatchLayout,
  encodeDictionaryBatchMessage,
  encodeRecordBatchMessage,
} from "../../../wire/flight/flight-arrow.js";
import { flightDataHead } from "../../../wire/flight/flight-protobuf.js";
import { frameHeadBytes, writeFrameHead } from "../../frames.js";
import { leastSlotMessageBytes, type MessageSlots, slotBytes } from "../../message-slots.js";
import { frameKinds } from "../../protocol.js";
import {
  endWord,
  fromWord,
  nullsWord,
  type PiecedColumn,
  pieceWords,
  rowsWord,
  startWord,
  validityWord,
  valuesWord,
} from "./pieces.js";
import { DuckDbError } from "../connection.js";
import { addressOf, type CLibrary, type Pointer } from "../library.js";

/** A message in native memory, until the next is made: a frame of kind `data`, or what a slot holds. */
export interface NativeFrame {
  readonly address: Pointer;
  readonly bytes: number;
  /** Of the FlightData message alone. */
  readonly messageBytes: number;
  /** Where it begins in the memory that is shared with the server; null for a frame. */
  readonly slotStart: number | null;
}

/** Memory beyond this is given back after a message. */
const keptBytes = 4 << 20;

/** Makes messages, one at a time. */
export class MessageWriter {
  readonly #c: CLibrary;
  readonly #slots: MessageSlots | null;
  readonly #shared: Memory | null;
  #own = memoryOf(new Uint8Array(0));
  /** What the message at hand is written to. */
  #bytes = this.#own.bytes;
  #words = this.#own.words;
  #address = this.#own.address;
  /** Rows and nulls of each field, depth first (Message.fbs FieldNode). */
  #nodes: number[] = [];
  /** Offset and length of each buffer in the body. */
  #buffers: number[] = [];
  #bodyBytes = 0;
  /** While a body is written: where it begins, and which buffer is next. */
  #bodyAt = 0;
  #next = 0;

  constructor(c: CLibrary, slots: MessageSlots | null) {
    this.#c = c;
    this.#slots = slots;
    this.#shared = slots === null ? null : memoryOf(slots.bytes);
  }

  /** A message without a body. */
  plain(header: Uint8Array): NativeFrame {
    return this.#frame(header, 0);
  }

  /** A record batch of columns. */
  batch(columns: readonly PiecedColumn[], rows: number): NativeFrame {
    this.#start();
    for (const column of columns) {
      this.#layOut(column);
    }
    return this.#finish(encodeRecordBatchMessage(this.#layout(rows)), columns);
  }

  /** A whole dictionary. */
  dictionary(id: number, values: PiecedColumn): NativeFrame {
    this.#start();
    this.#layOut(values);
    return this.#finish(encodeDictionaryBatchMessage(id, this.#layout(values.rows)), [values]);
  }

  #layout(rows: number): BatchLayout {
    return { rows, nodes: this.#nodes, buffers: this.#buffers, bodyBytes: this.#bodyBytes };
  }

  #start(): void {
    this.#nodes = [];
    this.#buffers = [];
    this.#bodyBytes = 0;
  }

  #finish(header: Uint8Array, columns: readonly PiecedColumn[]): NativeFrame {
    const frame = this.#frame(header, this.#bodyBytes);
    this.#next = 0;
    for (const column of columns) {
      this.#write(column);
    }
    return frame;
  }

  /** Takes memory, writes all in front of the body. */
  #frame(header: Uint8Array, bodyBytes: number): NativeFrame {
    const head = flightDataHead(header, bodyBytes);
    const messageBytes = head.length + bodyBytes;
    // The body begins at a multiple of 8, where numbers can be written as such.
    const headRoom = (frameHeadBytes + head.length + 7) & ~7;
    const fits = messageBytes >= leastSlotMessageBytes && headRoom + bodyBytes <= slotBytes;
    const slot = fits ? (this.#slots?.next() ?? null) : null;
    this.#use(slot !== null && this.#shared !== null ? this.#shared : this.#reserved(headRoom + bodyBytes));
    this.#bodyAt = (slot ?? 0) + headRoom;
    const start = this.#bodyAt - head.length;
    this.#bytes.set(head, start);
    if (slot !== null) {
      return {
        address: this.#address + start,
        bytes: messageBytes,
        messageBytes,
        slotStart: start,
      };
    }
    writeFrameHead(this.#bytes, start - frameHeadBytes, frameKinds.data, messageBytes);
    return {
      address: this.#address + start - frameHeadBytes,
      bytes: frameHeadBytes + messageBytes,
      messageBytes,
      slotStart: null,
    };
  }

  #use({ bytes, words, address }: Memory): void {
    this.#bytes = bytes;
    this.#words = words;
    this.#address = address;
  }

  #reserved(bytes: number): Memory {
    const { length } = this.#own.bytes;
    if (bytes > length || length > Math.max(bytes, keptBytes)) {
      const { buffer } = Buffer.allocUnsafeSlow((bytes + (bytes >> 2) + 4095) & ~4095);
      this.#own = memoryOf(new Uint8Array(buffer));
    }
    return this.#own;
  }

  #layOut(column: PiecedColumn): void {
    const { rows, layout } = column;
    const nulls = layout.kind === "null" ? rows : column.nulls;
    this.#nodes.push(rows, nulls);
    if (layout.kind === "null") {
      return;
    }
    // Neither has a union a validity of its own: its children do.
    if (layout.kind !== "union") {
      this.#room(nulls === 0 ? 0 : (rows + 7) >> 3);
    }
    switch (layout.kind) {
      case "bits":
        this.#room((rows + 7) >> 3);
        break;
      case "fixed":
        this.#room(rows * layout.bytes);
        break;
      case "narrowed":
        this.#room(rows * 8);
        break;
      case "union":
        this.#room(rows);
        break;
      case "bytes":
        this.#room((rows + 1) * 4);
        this.#room(extent(column));
        break;
      case "list":
        this.#room((rows + 1) * 4);
        break;
      case "struct":
      case "fixed_list":
        break;
    }
    for (const child of column.children) {
      this.#layOut(child);
    }
  }

  /** Takes room in the body, aligned to 8 bytes as the format asks. */
  #room(bytes: number): void {
    this.#buffers.push(this.#bodyBytes, bytes);
    this.#bodyBytes = (this.#bodyBytes + bytes + 7) & ~7;
  }

  #write(column: PiecedColumn): void {
    const { layout } = column;
    if (layout.kind === "null") {
      return;
    }
    if (layout.kind !== "union") {
      const validity = this.#take();
      if (column.nulls > 0) {
        this.#writeBits(column, validity, validityWord);
      }
    }
    switch (layout.kind) {
      case "bits":
        this.#writeBits(column, this.#take(), valuesWord);
        break;
      case "fixed":
        this.#writeFixed(column, this.#take(), layout.bytes);
        break;
      case "narrowed":
        this.#writeNarrowed(column, this.#take(), layout.name);
        break;
      case "union":
        this.#writeFixed(column, this.#take(), 1);
        break;
      case "bytes":
        this.#writeOffsets(column, this.#take());
        this.#writeBytes(column, this.#take());
        break;
      case "list":
        this.#writeOffsets(column, this.#take());
        break;
      case "struct":
      case "fixed_list":
        break;
    }
    for (const child of column.children) {
      this.#write(child);
    }
  }

  /** The next buffer's place in the memory; the bytes behind it, up to the next one's, become 0. */
  #take(): number {
    const offset = this.#buffers[this.#next++] ?? 0;
    const end = offset + (this.#buffers[this.#next++] ?? 0);
    for (let i = end; (i & 7) !== 0; i++) {
      this.#bytes[this.#bodyAt + i] = 0;
    }
    return this.#bodyAt + offset;
  }

  #writeFixed({ pieces, count }: PiecedColumn, to: number, width: number): void {
    let at = this.#address + to;
    for (let i = 0, p = 0; i < count; i++, p += pieceWords) {
      const bytes = pieces[p + rowsWord]! * width;
      if (bytes > 0) {
        this.#c.memcpy(at, pieces[p + valuesWord]! + pieces[p + fromWord]! * width, bytes);
      }
      at += bytes;
    }
  }

  /** The lower halves of 128-bit integers. @throws DuckDbError for one that has more than 64 bits */
  #writeNarrowed({ pieces, count }: PiecedColumn, to: number, name: string): void {
    const words = this.#words;
    let at = to >> 2;
    for (let i = 0, p = 0; i < count; i++, p += pieceWords) {
      const rows = pieces[p + rowsWord]!;
      if (rows === 0) {
        continue;
      }
      const from = pieces[p + fromWord]!;
      const wide = new Int32Array(rows * 4);
      this.#c.memcpy(addressOf(new Uint8Array(wide.buffer)), pieces[p + valuesWord]! + from * 16, rows * 16);
      for (let row = 0, w = 0; row < rows; row++, w += 4) {
        const high = wide[w + 1]!;
        const sign = high >> 31;
        const fits = wide[w + 2] === sign && wide[w + 3] === sign;
        if (!fits && (pieces[p + nullsWord] === 0 || this.#isSet(pieces[p + validityWord]!, from + row))) {
          throw new DuckDbError(
            `Out of Range Error: column ${JSON.stringify(name)} has a value beyond 64 bits; cast it to DOUBLE, DECIMAL(38,0) or VARCHAR`,
          );
        }
        words[at++] = wide[w]!;
        words[at++] = high;
      }
    }
  }

  #isSet(bits: Pointer, index: number): boolean {
    const byte = new Uint8Array(1);
    this.#c.memcpy(addressOf(byte), bits + (index >> 3), 1);
    return (byte[0]! & (1 << (index & 7))) !== 0;
  }

  #writeBytes({ pieces, data, count }: PiecedColumn, to: number): void {
    let at = this.#address + to;
    for (let i = 0, p = 0; i < count; i++, p += pieceWords) {
      const start = pieces[p + startWord]!;
      const bytes = pieces[p + endWord]! - start;
      if (bytes > 0) {
        this.#c.memcpy(at, data[i]! + start, bytes);
      }
      at += bytes;
    }
  }

  #writeOffsets({ pieces, count }: PiecedColumn, to: number): void {
    const words = this.#words;
    let at = to >> 2;
    let base = 0;
    words[at++] = 0;
    for (let i = 0, p = 0; i < count; i++, p += pieceWords) {
      const rows = pieces[p + rowsWord]!;
      if (rows === 0) {
        continue;
      }
      const from = pieces[p + valuesWord]! + (pieces[p + fromWord]! + 1) * 4;
      this.#c.memcpy(this.#address + at * 4, from, rows * 4);
      const shift = base - pieces[p + startWord]!;
      const end = at + rows;
      if (shift !== 0) {
        for (let j = at; j < end; j++) {
          words[j] = words[j]! + shift;
        }
      }
      at = end;
      base += pieces[p + endWord]! - pieces[p + startWord]!;
    }
  }

  /** Bits of validity (without nulls: all 1), or truth values. */
  #writeBits(column: PiecedColumn, to: number, word: number): void {
    const { pieces, count } = column;
    const bytes = this.#bytes;
    let bit = 0;
    for (let i = 0, p = 0; i < count; i++, p += pieceWords) {
      const rows = pieces[p + rowsWord]!;
      if (rows === 0) {
        continue;
      }
      const at = to + (bit >> 3);
      const shift = bit & 7;
      // What the byte holds of the piece before.
      const before = shift === 0 ? 0 : bytes[at]! & ((1 << shift) - 1);
      const targetBytes = (shift + rows + 7) >> 3;
      if (word === validityWord && pieces[p + nullsWord] === 0) {
        bytes.fill(0xff, at, at + targetBytes);
        bytes[at] = before | (0xff << shift);
      } else {
        const from = pieces[p + fromWord]!;
        this.#copyBits(at, shift, pieces[p + word]!, from, rows);
        bytes[at] = before | (bytes[at]! & (0xff << shift));
      }
      bit += rows;
    }
    if ((bit & 7) !== 0) {
      bytes[to + (bit >> 3)] = bytes[to + (bit >> 3)]! & ((1 << (bit & 7)) - 1);
    }
  }

  /** Copies bits to bit `shift` of byte `at`. Bits before and behind them in their bytes become anything. */
  #copyBits(at: number, shift: number, source: Pointer, from: number, count: number): void {
    const bytes = this.#bytes;
    const skew = from & 7;
    const first = source + (from >> 3);
    if (skew === shift) {
      this.#c.memcpy(this.#address + at, first, (skew + count + 7) >> 3);
      return;
    }
    const sourceBytes = (skew + count + 7) >> 3;
    const copy = Buffer.allocUnsafe(sourceBytes);
    this.#c.memcpy(addressOf(copy), first, sourceBytes);
    const targetBytes = (shift + count + 7) >> 3;
    // Bit 0 of target byte k is bit 8 * k - distance of the source.
    const distance = shift - skew;
    for (let k = 0; k < targetBytes; k++) {
      const low = copy[distance > 0 ? k - 1 : k] ?? 0;
      const high = copy[distance > 0 ? k : k + 1] ?? 0;
      const right = distance > 0 ? 8 - distance : -distance;
      bytes[at + k] = (low | (high << 8)) >> right;
    }
  }
}

/** Memory as bytes, as words, and as C knows it. */
interface Memory {
  readonly bytes: Uint8Array;
  readonly words: Int32Array;
  readonly address: Pointer;
}

function memoryOf(bytes: Uint8Array): Memory {
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  return { bytes, words, address: bytes.length === 0 ? 0 : addressOf(bytes) };
}

/** Bytes of all texts of a column. */
function extent({ pieces, count }: PiecedColumn): number {
  let bytes = 0;
  for (let i = 0, p = 0; i < count; i++, p += pieceWords) {
    bytes += pieces[p + endWord]! - pieces[p + startWord]!;
  }
  return bytes;
}
