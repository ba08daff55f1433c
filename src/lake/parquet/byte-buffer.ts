/**
 * Where encoded bytes go: a growing buffer, and the list of chunks that becomes a file.
 * Hot code: no bounds are checked beyond `reserve`; callers reserve before they write.
 */

/** A buffer that grows by doubling. Writes go to `bytes[length...]` after `reserve`. */
export class ByteBuffer {
  bytes: Uint8Array;
  length = 0;

  constructor(capacity = 16 * 1024) {
    this.bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Makes room for `count` more bytes. `bytes` may be another array afterwards. */
  reserve(count: number): void {
    const needed = this.length + count;
    if (needed <= this.bytes.length) {
      return;
    }
    let capacity = this.bytes.length;
    while (capacity < needed) {
      capacity *= 2;
    }
    const grown = Buffer.allocUnsafeSlow(capacity);
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }

  byte(value: number): void {
    this.reserve(1);
    this.bytes[this.length++] = value;
  }

  /** Unsigned LEB128 of a safe non-negative integer. */
  varint(value: number): void {
    this.reserve(10);
    const bytes = this.bytes;
    let rest = value;
    while (rest > 0x7f) {
      if (rest > 0x7fffffff) {
        bytes[this.length++] = (rest % 128) | 0x80;
        rest = Math.floor(rest / 128);
      } else {
        bytes[this.length++] = (rest & 0x7f) | 0x80;
        rest >>>= 7;
      }
    }
    bytes[this.length++] = rest;
  }

  /** Zigzag LEB128 of a safe integer. */
  zigzag(value: number): void {
    this.varint(value < 0 ? -2 * value - 1 : 2 * value);
  }

  uint32(value: number): void {
    this.reserve(4);
    const bytes = this.bytes;
    let at = this.length;
    bytes[at++] = value;
    bytes[at++] = value >>> 8;
    bytes[at++] = value >>> 16;
    bytes[at++] = value >>> 24;
    this.length = at;
  }

  append(source: Uint8Array): void {
    this.reserve(source.length);
    this.bytes.set(source, this.length);
    this.length += source.length;
  }

  /** What was written. A view: valid until the next write or `clear`. */
  view(): Uint8Array {
    return this.bytes.subarray(0, this.length);
  }

  clear(): void {
    this.length = 0;
  }
}

/** Below this, copying is cheaper than one more entry for writev. */
const copyLimitBytes = 4096;

/**
 * The file as it grows: small pieces are copied together, large ones are referenced where they lie, so
 * a column's values go from its builder to the kernel without a copy in between.
 */
export class ChunkList {
  readonly chunks: Uint8Array[] = [];
  /** Bytes so far: the file offset of what comes next. */
  bytes = 0;
  #block: Uint8Array;
  #start = 0;
  #at = 0;

  constructor(blockBytes: number) {
    this.#block = Buffer.allocUnsafeSlow(blockBytes);
  }

  /** Copies `source`. */
  copy(source: Uint8Array): void {
    const count = source.length;
    if (count > this.#block.length - this.#at) {
      this.#close();
      this.#block = Buffer.allocUnsafeSlow(Math.max(this.#block.length, count));
      this.#start = 0;
      this.#at = 0;
    }
    this.#block.set(source, this.#at);
    this.#at += count;
    this.bytes += count;
  }

  /** Adds `source` without copying when it is large; it must not change until the file is written. */
  reference(source: Uint8Array): void {
    if (source.length < copyLimitBytes) {
      this.copy(source);
      return;
    }
    this.#close();
    this.chunks.push(source);
    this.bytes += source.length;
  }

  /** The finished list. */
  finish(): Uint8Array[] {
    this.#close();
    return this.chunks;
  }

  #close(): void {
    if (this.#at === this.#start) {
      return;
    }
    this.chunks.push(this.#block.subarray(this.#start, this.#at));
    this.#start = this.#at;
  }
}
