/**
 * Zstandard decompression (RFC 8878), without dictionaries. Node.js has it from 22.15 on only, and the
 * decoders on npm that are plain JavaScript follow sequences beyond the end of a block, so that a small
 * body can keep them busy for minutes: here every copy is bounded by its block and by the limit.
 *
 * The window is the output itself, so that the memory needed never depends on what a frame claims.
 * Byte-level code; about 6 ns a byte of output.
 */
import { freeBuffer } from "../../runtime/free-buffer.js";
import { MalformedError } from "../../wire/protobuf-reader.js";
import { frameMagic, readFrameHead } from "./zstd-frame.js";
import { BackwardBits, corruptZstd, FseTable, HuffmanTable } from "./zstd-tables.js";
import { xxh64Low } from "./xxh64.js";

const skippableMagic = 0x184d2a50;
/** Bytes that a block may regenerate (section 3.1.1.2.4). */
const maxBlockBytes = 128 * 1024;
const initialOutputBytes = 256 * 1024;

const truncated = "the compressed body is truncated";

/** Base values and extra bits of literal length codes (section 3.1.1.3.2.1.1). */
const literalLengthBits = bitsOf(16, [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
const literalLengthBases = basesOf(literalLengthBits, 0);
/** The same of match length codes. */
const matchLengthBits = bitsOf(32, [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
const matchLengthBases = basesOf(matchLengthBits, 3);

function bitsOf(codesWithout: number, rest: readonly number[]): Uint8Array {
  const bits = new Uint8Array(codesWithout + rest.length);
  bits.set(rest, codesWithout);
  return bits;
}

function basesOf(bits: Uint8Array, first: number): Int32Array {
  const bases = new Int32Array(bits.length);
  let base = first;
  bits.forEach((count, code) => {
    bases[code] = base;
    base += 1 << count;
  });
  return bases;
}

/** Default distributions (section 3.1.1.3.2.2). */
const literalLengthDefaults = [
  4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1,
];
const offsetDefaults = [1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1];
const matchLengthDefaults = [
  1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
  1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
];

/** One of the three codes of a sequence: its table at present, and the one to read into. */
class SequenceCode {
  readonly #own: FseTable;
  readonly #default: FseTable;
  #current: FseTable | null = null;

  constructor(maxLog: number, maxSymbol: number, defaultLog: number, defaults: readonly number[]) {
    this.#own = new FseTable(maxLog, maxSymbol);
    this.#default = new FseTable(maxLog, maxSymbol);
    this.#default.setCounts(defaults, defaultLog);
  }

  /** Forgets the table of the last frame. */
  reset(): void {
    this.#current = null;
  }

  get table(): FseTable {
    if (this.#current === null) {
      throw corruptZstd();
    }
    return this.#current;
  }

  /** Takes the table that `mode` says. @returns the position behind its description. */
  select(mode: number, view: DataView, pos: number, end: number): number {
    switch (mode) {
      case 0:
        this.#current = this.#default;
        return pos;
      case 1:
        if (pos >= end) {
          throw corruptZstd();
        }
        this.#own.setSingle(view.getUint8(pos));
        this.#current = this.#own;
        return pos + 1;
      case 2:
        // A description that turns out bad fails the body: nobody sees the table half-built.
        this.#current = this.#own;
        return this.#own.read(view, pos, end);
      default:
        if (this.#current === null) {
          throw corruptZstd();
        }
        return pos;
    }
  }
}

class ZstdDecoder {
  readonly #view: DataView;
  readonly #input: Uint8Array;
  readonly #limit: number;
  readonly #tooLarge: () => Error;
  readonly #stream: BackwardBits;
  readonly #huffman = new HuffmanTable();
  readonly #literalLengths = new SequenceCode(9, 35, 6, literalLengthDefaults);
  readonly #offsets = new SequenceCode(8, 31, 5, offsetDefaults);
  readonly #matchLengths = new SequenceCode(9, 52, 6, matchLengthDefaults);
  readonly #literals = new Uint8Array(maxBlockBytes);
  #output: Uint8Array;
  #at = 0;
  #frameStart = 0;
  #hasHuffman = false;
  #literalCount = 0;
  #repeat0 = 1;
  #repeat1 = 4;
  #repeat2 = 8;

  constructor(input: Uint8Array, limit: number, tooLarge: () => Error) {
    this.#input = input;
    this.#view = new DataView(input.buffer, input.byteOffset);
    this.#stream = new BackwardBits(this.#view);
    this.#limit = limit;
    this.#tooLarge = tooLarge;
    this.#output = new Uint8Array(Math.min(limit, initialOutputBytes));
  }

  run(): Uint8Array {
    let pos = 0;
    do {
      if (this.#input.length - pos < 5) {
        throw new MalformedError(truncated);
      }
      const magic = this.#view.getUint32(pos, true);
      if (magic === frameMagic) {
        pos = this.#frame(pos + 4);
      } else if ((magic & 0xfffffff0) >>> 0 === skippableMagic) {
        if (this.#input.length - pos < 8) {
          throw new MalformedError(truncated);
        }
        pos += 8 + this.#view.getUint32(pos + 4, true);
        if (pos > this.#input.length) {
          throw new MalformedError(truncated);
        }
      } else {
        throw new MalformedError(pos === 0 ? "the body is not zstd" : "something follows the compressed body");
      }
    } while (pos < this.#input.length);
    return this.#output.subarray(0, this.#at);
  }

  /** Makes room for `count` bytes of output, or fails at the limit. */
  #reserve(count: number): void {
    const needed = this.#at + count;
    if (needed <= this.#output.length) {
      return;
    }
    if (needed > this.#limit) {
      throw this.#tooLarge();
    }
    const grown = new Uint8Array(Math.min(this.#limit, Math.max(needed, this.#output.length * 2)));
    grown.set(this.#output.subarray(0, this.#at));
    freeBuffer(this.#output);
    this.#output = grown;
  }

  /** Section 3.1.1, behind the magic number. @returns the position behind the frame. */
  #frame(start: number): number {
    const view = this.#view;
    const { length } = this.#input;
    const { dictionaryAt, sizeAt, end, size, hasReservedBit, hasChecksum } = readFrameHead(view, start);
    let pos = end;
    if (pos > length) {
      throw new MalformedError(truncated);
    }
    if (hasReservedBit) {
      throw corruptZstd();
    }
    for (let at = dictionaryAt; at < sizeAt; at++) {
      if (view.getUint8(at) !== 0) {
        throw new MalformedError("the body needs a zstd dictionary");
      }
    }
    if (size > this.#limit - this.#at) {
      throw this.#tooLarge();
    }
    // The size is only a claim: what is reserved for it stays in proportion to the input.
    if (size > 0) {
      this.#reserve(Math.min(size, length * 64));
    }

    this.#frameStart = this.#at;
    this.#hasHuffman = false;
    this.#repeat0 = 1;
    this.#repeat1 = 4;
    this.#repeat2 = 8;
    this.#literalLengths.reset();
    this.#offsets.reset();
    this.#matchLengths.reset();
    let isLast = false;
    while (!isLast) {
      if (pos + 3 > length) {
        throw new MalformedError(truncated);
      }
      const header = view.getUint32(pos, true) & 0xffffff;
      isLast = (header & 1) !== 0;
      pos = this.#block((header >> 1) & 3, header >> 3, pos + 3);
    }
    if (size >= 0 && this.#at - this.#frameStart !== size) {
      throw corruptZstd();
    }
    if (hasChecksum) {
      if (pos + 4 > length) {
        throw new MalformedError(truncated);
      }
      const checksum = xxh64Low(this.#output, this.#frameStart, this.#at);
      if (view.getInt32(pos, true) !== checksum) {
        throw corruptZstd();
      }
      pos += 4;
    }
    return pos;
  }

  /** Section 3.1.1.2. @returns the position behind the block. */
  #block(type: number, size: number, pos: number): number {
    if (type === 3 || size > maxBlockBytes) {
      throw corruptZstd();
    }
    const end = pos + (type === 1 ? 1 : size);
    if (end > this.#input.length) {
      throw new MalformedError(truncated);
    }
    if (type === 2) {
      this.#sequences(this.#readLiterals(pos, end), end);
      return end;
    }
    this.#reserve(size);
    if (type === 0) {
      this.#output.set(this.#input.subarray(pos, end), this.#at);
    } else {
      this.#output.fill(this.#input[pos]!, this.#at, this.#at + size);
    }
    this.#at += size;
    return end;
  }

  /** Section 3.1.1.3.1. @returns the position behind the literals. */
  #readLiterals(start: number, end: number): number {
    const view = this.#view;
    if (end - start < 2) {
      throw corruptZstd();
    }
    const bits = view.getUint32(start, true);
    const type = bits & 3;
    const format = (bits >> 2) & 3;
    if (type < 2) {
      const headerBytes = (format & 1) === 0 ? 1 : format === 1 ? 2 : 3;
      const count = (bits & ((1 << (8 * headerBytes)) - 1)) >> (headerBytes === 1 ? 3 : 4);
      const pos = start + headerBytes;
      const stop = pos + (type === 0 ? count : 1);
      if (count > maxBlockBytes || stop > end) {
        throw corruptZstd();
      }
      if (type === 0) {
        this.#literals.set(this.#input.subarray(pos, stop));
      } else {
        this.#literals.fill(view.getUint8(pos), 0, count);
      }
      this.#literalCount = count;
      return stop;
    }
    let count = (bits >>> 4) & 0x3ff;
    let size = (bits >>> 14) & 0x3ff;
    let pos = start + 3;
    if (format === 2) {
      count = (bits >>> 4) & 0x3fff;
      size = bits >>> 18;
      pos = start + 4;
    } else if (format === 3) {
      count = (bits >>> 4) & 0x3ffff;
      size = (bits >>> 22) | (view.getUint8(start + 4) << 10);
      pos = start + 5;
    }
    const stop = pos + size;
    if (count > maxBlockBytes || stop > end) {
      throw corruptZstd();
    }
    if (type === 2) {
      pos = this.#huffman.read(view, pos, stop, this.#stream);
    } else if (!this.#hasHuffman) {
      throw corruptZstd();
    }
    this.#hasHuffman = true;
    this.#literalCount = count;
    if (format === 0) {
      this.#huffmanStream(pos, stop, 0, count);
    } else {
      this.#huffmanStreams(pos, stop, count);
    }
    return stop;
  }

  #huffmanStreams(start: number, end: number, count: number): void {
    if (end - start < 6) {
      throw corruptZstd();
    }
    const each = (count + 3) >> 2;
    let pos = start + 6;
    let at = 0;
    for (let stream = 0; stream < 3; stream++) {
      const stop = pos + this.#view.getUint16(start + 2 * stream, true);
      if (stop > end || at + each > count) {
        throw corruptZstd();
      }
      this.#huffmanStream(pos, stop, at, at + each);
      pos = stop;
      at += each;
    }
    this.#huffmanStream(pos, end, at, count);
  }

  #huffmanStream(start: number, end: number, at: number, stop: number): void {
    this.#stream.attach(start, end);
    this.#huffman.decode(this.#stream, this.#literals, at, stop);
  }

  /** Section 3.1.1.3.2: sequences of literals and matches, and the literals left over. */
  #sequences(start: number, end: number): void {
    const view = this.#view;
    if (start >= end) {
      throw corruptZstd();
    }
    let pos = start + 1;
    let count = view.getUint8(start);
    if (count >= 128) {
      const isLong = count === 255;
      count = isLong ? view.getUint16(pos, true) + 0x7f00 : ((count - 128) << 8) + view.getUint8(pos);
      pos += isLong ? 2 : 1;
    }
    this.#reserve(Math.min(maxBlockBytes, this.#limit - this.#at));
    const blockStop = Math.min(this.#at + maxBlockBytes, this.#output.length);
    if (count === 0) {
      if (pos !== end) {
        throw corruptZstd();
      }
      this.#copyLiterals(0, this.#literalCount, blockStop);
      return;
    }
    if (pos >= end) {
      throw corruptZstd();
    }
    const modes = view.getUint8(pos++);
    if ((modes & 3) !== 0) {
      throw corruptZstd();
    }
    pos = this.#literalLengths.select(modes >> 6, view, pos, end);
    pos = this.#offsets.select((modes >> 4) & 3, view, pos, end);
    pos = this.#matchLengths.select((modes >> 2) & 3, view, pos, end);
    this.#stream.attach(pos, end);
    this.#execute(count, blockStop);
  }

  #execute(count: number, blockStop: number): void {
    const stream = this.#stream;
    const lengths = this.#literalLengths.table;
    const offsets = this.#offsets.table;
    const matches = this.#matchLengths.table;
    let lengthState = stream.read(lengths.accuracyLog);
    let offsetState = stream.read(offsets.accuracyLog);
    let matchState = stream.read(matches.accuracyLog);
    let literal = 0;
    for (let left = count; left > 0; left--) {
      const offsetCode = offsets.symbols[offsetState]!;
      // 2^31 as an offset code would be negative here, and is beyond any output anyway.
      if (offsetCode > 30) {
        throw corruptZstd();
      }
      const offsetValue = (1 << offsetCode) + stream.read(offsetCode);
      const matchCode = matches.symbols[matchState]!;
      const matchLength = matchLengthBases[matchCode]! + stream.read(matchLengthBits[matchCode]!);
      const lengthCode = lengths.symbols[lengthState]!;
      const length = literalLengthBases[lengthCode]! + stream.read(literalLengthBits[lengthCode]!);
      if (left > 1) {
        lengthState = lengths.bases[lengthState]! + stream.read(lengths.bits[lengthState]!);
        matchState = matches.bases[matchState]! + stream.read(matches.bits[matchState]!);
        offsetState = offsets.bases[offsetState]! + stream.read(offsets.bits[offsetState]!);
      }
      if (stream.left < 0 || literal + length > this.#literalCount) {
        throw corruptZstd();
      }
      this.#copyLiterals(literal, length, blockStop);
      literal += length;
      this.#copyMatch(this.#offsetOf(offsetValue, length === 0), matchLength, blockStop);
    }
    if (stream.left !== 0) {
      throw corruptZstd();
    }
    this.#copyLiterals(literal, this.#literalCount - literal, blockStop);
  }

  /** Section 3.1.1.5: the three last offsets have short codes. */
  #offsetOf(value: number, isLengthZero: boolean): number {
    const index = value - 1 + (isLengthZero ? 1 : 0);
    let offset = value - 3;
    if (value <= 3) {
      if (index === 0) {
        return this.#repeat0;
      }
      if (index === 1) {
        offset = this.#repeat1;
        this.#repeat1 = this.#repeat0;
        this.#repeat0 = offset;
        return offset;
      }
      offset = index === 2 ? this.#repeat2 : this.#repeat0 - 1;
    }
    this.#repeat2 = this.#repeat1;
    this.#repeat1 = this.#repeat0;
    this.#repeat0 = offset;
    return offset;
  }

  #copyLiterals(from: number, count: number, blockStop: number): void {
    if (this.#at + count > blockStop) {
      throw this.#overflow(blockStop);
    }
    const output = this.#output;
    const literals = this.#literals;
    let at = this.#at;
    if (count > 32) {
      output.set(literals.subarray(from, from + count), at);
      this.#at = at + count;
      return;
    }
    for (const stop = from + count; from < stop; from++) {
      output[at++] = literals[from]!;
    }
    this.#at = at;
  }

  #copyMatch(offset: number, count: number, blockStop: number): void {
    let at = this.#at;
    if (at + count > blockStop) {
      throw this.#overflow(blockStop);
    }
    if (offset <= 0 || offset > at - this.#frameStart) {
      throw corruptZstd();
    }
    const output = this.#output;
    if (count > 64 && offset >= count) {
      output.copyWithin(at, at - offset, at - offset + count);
      this.#at = at + count;
      return;
    }
    for (const stop = at + count; at < stop; at++) {
      output[at] = output[at - offset]!;
    }
    this.#at = at;
  }

  /** Why a block cannot go on: it is larger than blocks may be, or the limit is reached. */
  #overflow(blockStop: number): Error {
    return blockStop === this.#limit ? this.#tooLarge() : corruptZstd();
  }
}

/**
 * Decompresses a zstd body of one or more frames, skippable ones included.
 * @param input is followed by at least 8 readable bytes in its buffer. @param limit of the output.
 * @param tooLarge makes the error for output beyond the limit. Throws that or MalformedError.
 */
export function decompressZstd(input: Uint8Array, limit: number, tooLarge: () => Error): readonly Uint8Array[] {
  return [new ZstdDecoder(input, limit, tooLarge).run()];
}
