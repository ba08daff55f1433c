/**
 * Protobuf wire format, written into one growing buffer (protobuf.dev, "Encoding"). Byte-level code;
 * numbers only, nothing is allocated per field.
 *
 * A nested message is opened with one byte reserved for its length and closed by writing the real one:
 * a length of more than 127 bytes moves the message up by the bytes it lacks. That is a copy within the
 * cache for most messages and keeps every length minimal.
 */
import { freeHuge } from "../runtime/free-buffer.js";
import { headroom, slack } from "./protobuf-reader.js";

/** A buffer that grows, with `headroom` in front and `slack` behind what is written. */
export class ProtobufWriter {
  bytes: Uint8Array;
  view: DataView;
  /** Write cursor: where the next byte goes. The output starts at `headroom`. */
  at = headroom;
  readonly #initialBytes: number;

  constructor(capacityBytes = 16 * 1024) {
    this.#initialBytes = headroom + capacityBytes + slack;
    this.bytes = new Uint8Array(this.#initialBytes);
    this.view = new DataView(this.bytes.buffer);
  }

  /** What was written: a view that the next write may overwrite. */
  output(): Uint8Array {
    return this.bytes.subarray(headroom, this.at);
  }

  /** Starts over; memory of more than `keepBytes` is given back. */
  reset(keepBytes: number): void {
    this.at = headroom;
    if (this.bytes.length > keepBytes) {
      this.#replaceBytes(new Uint8Array(this.#initialBytes));
    }
  }

  /** Makes room for `count` more bytes. `bytes` may be another array afterwards. */
  reserve(count: number): void {
    const needed = this.at + count + slack;
    if (needed <= this.bytes.length) {
      return;
    }
    const grown = new Uint8Array(Math.max(needed, this.bytes.length * 2));
    grown.set(this.bytes.subarray(0, this.at));
    this.#replaceBytes(grown);
  }

  /** A field's tag. @param field number, @param type wire type. */
  tag(field: number, type: number): void {
    this.varint32((field << 3) | type);
  }

  /** A varint of the low 32 bits of `value`, taken as unsigned. */
  varint32(value: number): void {
    this.reserve(5);
    const { bytes } = this;
    let { at } = this;
    let rest = value >>> 0;
    while (rest > 0x7f) {
      bytes[at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    bytes[at++] = rest;
    this.at = at;
  }

  /** A varint of 64 bits given as words. */
  varint64(low: number, high: number): void {
    this.reserve(10);
    const { bytes } = this;
    let { at } = this;
    while (high !== 0 || low >>> 0 > 0x7f) {
      bytes[at++] = (low & 0x7f) | 0x80;
      low = (low >>> 7) | (high << 25);
      high >>>= 7;
    }
    bytes[at++] = low;
    this.at = at;
  }

  fixed32(value: number): void {
    this.reserve(4);
    this.view.setInt32(this.at, value, true);
    this.at += 4;
  }

  fixed64(low: number, high: number): void {
    this.reserve(8);
    this.view.setInt32(this.at, low, true);
    this.view.setInt32(this.at + 4, high, true);
    this.at += 8;
  }

  double(value: number): void {
    this.reserve(8);
    this.view.setFloat64(this.at, value, true);
    this.at += 8;
  }

  /** Bytes as they are, without a length. */
  raw(source: Uint8Array): void {
    this.reserve(source.length);
    this.bytes.set(source, this.at);
    this.at += source.length;
  }

  /** A length-delimited field of ready bytes. */
  bytesField(field: number, value: Uint8Array): void {
    this.tag(field, 2);
    this.varint32(value.length);
    this.raw(value);
  }

  /** Opens a length-delimited payload. @returns the mark that {@link close} takes. */
  open(): number {
    this.reserve(1);
    return this.at++;
  }

  /** Closes what {@link open} opened: everything written since is the payload. */
  close(mark: number): void {
    const start = mark + 1;
    const length = this.at - start;
    if (length < 0x80) {
      this.bytes[mark] = length;
      return;
    }
    const extra = length < 0x4000 ? 1 : length < 0x200000 ? 2 : length < 0x10000000 ? 3 : 4;
    this.reserve(extra);
    this.bytes.copyWithin(start + extra, start, this.at);
    const stop = this.at + extra;
    this.at = mark;
    this.varint32(length);
    this.at = stop;
  }

  #replaceBytes(bytes: Uint8Array<ArrayBuffer>): void {
    freeHuge(this.bytes);
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
  }
}
