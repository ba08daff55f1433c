/**
 * Protobuf wire format, read in place (protobuf.dev, "Encoding").
 *
 * Hot code, written like C: nothing is allocated per field, record or value. Callers keep the position
 * in a local variable and hand it in; what a function consumed up to is left in `next`, a 64-bit value
 * in `low` and `high` (32-bit words, signed).
 *
 * The loop over the fields of a message is written out wherever one is read, with the short way for one-byte tags
 * and lengths in it: a function that called back for each field would cost a call a field, and its callbacks would
 * not be inlined. Functions that read messages therefore look alike.
 *
 * The input lies between `headroom` bytes before and `slack` bytes after it that may be read (and, in
 * front, overwritten for a while by their owner). Reads are therefore checked once a field, not once a
 * byte: a loop over a message runs `while (pos < end)` and calls `finished(pos, end)` behind it, which
 * refuses a field that reached past the end. Values read so far must not be used before that check.
 */

/** Bytes before the input that belong to the holder of the buffer. */
export const headroom = 64;

/** Readable bytes behind the input: the longest scalar (a 10-byte varint) behind a 10-byte tag, and a word. */
export const slack = 64;

/** What is wrong with an encoded message; the text is public. */
export class MalformedError extends Error {
  override readonly name = "MalformedError";
}

/** Wire types (the low three bits of a tag). */
export const wireType = {
  varint: 0,
  fixed64: 1,
  bytes: 2,
  startGroup: 3,
  endGroup: 4,
  fixed32: 5,
} as const;

const truncated = "a field is truncated";
const tooDeep = "messages are nested too deeply";

/** One encoded message in memory of our own; see the head of this file. */
export class ProtobufReader {
  /** The buffer that holds the input. */
  bytes: Uint8Array;
  /** View of all of `bytes`. */
  view: DataView;
  /** Behind what the last call read. */
  next = 0;
  /** Low word of the last 64-bit value. */
  low = 0;
  /** High word of the last 64-bit value. */
  high = 0;
  readonly maxDepth: number;

  /** @param maxDepth how deep messages and groups may nest below the outermost message. */
  constructor(maxDepth: number) {
    this.maxDepth = maxDepth;
    this.bytes = new Uint8Array(headroom + slack);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Takes a buffer that holds the input with headroom and slack around it. */
  attach(bytes: Uint8Array): void {
    if (bytes === this.bytes) {
      return;
    }
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Throws unless `pos` is exactly `end`: the last field reached past the end of its message. */
  finished(pos: number, end: number): void {
    if (pos !== end) {
      throw new MalformedError(truncated);
    }
  }

  /** Throws when a message at `depth` may not be entered. */
  enter(depth: number): void {
    if (depth > this.maxDepth) {
      throw new MalformedError(tooDeep);
    }
  }

  /** Reads a varint of at most 10 bytes into `low` and `high`; bits beyond 64 are dropped, as everywhere. */
  varint(pos: number): void {
    const { bytes } = this;
    let byte = bytes[pos++]!;
    if (byte < 0x80) {
      this.low = byte;
      this.high = 0;
      this.next = pos;
      return;
    }
    let low = byte & 0x7f;
    for (let shift = 7; shift < 28; shift += 7) {
      byte = bytes[pos++]!;
      low |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        this.low = low;
        this.high = 0;
        this.next = pos;
        return;
      }
    }
    byte = bytes[pos++]!;
    low |= byte << 28;
    let high = (byte & 0x7f) >> 4;
    for (let shift = 3; byte >= 0x80; shift += 7) {
      if (shift > 31) {
        throw new MalformedError("a varint is longer than 10 bytes");
      }
      byte = bytes[pos++]!;
      high |= (byte & 0x7f) << shift;
    }
    this.low = low;
    this.high = high;
    this.next = pos;
  }

  /** Reads 8 little-endian bytes into `low` and `high`. */
  fixed64(pos: number): void {
    this.low = this.view.getInt32(pos, true);
    this.high = this.view.getInt32(pos + 4, true);
    this.next = pos + 8;
  }

  /**
   * Reads the length at `pos` of a field within `[.., end)`. Its payload starts at `next`.
   * @returns where the payload ends, at most `end`.
   */
  delimited(pos: number, end: number): number {
    let length = this.bytes[pos++]!;
    if (length > 0x7f) {
      this.varint(pos - 1);
      pos = this.next;
      length = this.high === 0 && this.low >= 0 ? this.low : 0x7fffffff;
    }
    this.next = pos;
    const stop = pos + length;
    if (stop > end) {
      throw new MalformedError("a length reaches past the end of its message");
    }
    return stop;
  }

  /** The rest of a tag whose first byte, at `pos - 1`, has the continuation bit. */
  longTag(pos: number): number {
    this.varint(pos - 1);
    if (this.high !== 0) {
      throw new MalformedError("a field number is out of range");
    }
    return this.low >>> 0;
  }

  /**
   * Skips a field that nobody here knows, or whose wire type is not the known one.
   * @param tag the whole tag, already read. @param pos behind it. @param depth of the message around it.
   * @returns the position behind the field, which may lie past `end` for a truncated scalar.
   */
  skip(tag: number, pos: number, end: number, depth: number): number {
    if (tag >>> 3 === 0) {
      throw new MalformedError("a field has number 0");
    }
    switch (tag & 7) {
      case wireType.varint:
        this.varint(pos);
        return this.next;
      case wireType.fixed64:
        return pos + 8;
      case wireType.bytes:
        return this.delimited(pos, end);
      case wireType.startGroup:
        return this.#skipGroup(tag, pos, end, depth + 1);
      case wireType.fixed32:
        return pos + 4;
      case wireType.endGroup:
        throw new MalformedError("a group ends that never started");
      default:
        throw new MalformedError("a field has an unknown wire type");
    }
  }

  #skipGroup(startTag: number, pos: number, end: number, depth: number): number {
    this.enter(depth);
    const endTag = startTag + 1;
    while (pos < end) {
      let tag = this.bytes[pos++]!;
      if (tag > 0x7f) {
        tag = this.longTag(pos);
        pos = this.next;
      }
      if (tag === endTag) {
        if (pos > end) {
          break;
        }
        return pos;
      }
      pos = this.skip(tag, pos, end, depth);
    }
    throw new MalformedError(pos > end ? truncated : "a group does not end");
  }
}
