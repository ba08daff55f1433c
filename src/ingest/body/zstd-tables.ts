/** Entropy tables of zstd (RFC 8878 section 4): FSE and Huffman. Byte-level code; tables are reused. */
import { MalformedError } from "../../wire/protobuf-reader.js";

/** The error for anything that is not zstd. */
export function corruptZstd(): MalformedError {
  return new MalformedError("the compressed body is corrupt");
}

function highestBit(value: number): number {
  return 31 - Math.clz32(value);
}

/**
 * Bits read backwards from the end of a stream (section 4.1.1.1 and 4.2.2): the last byte's highest set
 * bit marks the end. Reads load four bytes, so that eight more must be readable behind the input.
 */
export class BackwardBits {
  readonly #view: DataView;
  #base = 0;
  /** Bits not read yet; negative after reading more than there were. */
  left = 0;

  constructor(view: DataView) {
    this.#view = view;
  }

  /** Starts at the end of the stream in `[start, end)`. */
  attach(start: number, end: number): void {
    const last = end > start ? this.#view.getUint8(end - 1) : 0;
    if (last === 0) {
      throw corruptZstd();
    }
    this.#base = start;
    this.left = (end - start - 1) * 8 + highestBit(last);
  }

  /** The next `count` bits (0 to 24); those before the start read as zeros. */
  peek(count: number): number {
    const from = this.left - count;
    if (from < 0) {
      if (this.left <= 0) {
        return 0;
      }
      return (this.#view.getUint32(this.#base, true) & ((1 << this.left) - 1)) << -from;
    }
    const word = this.#view.getUint32(this.#base + (from >> 3), true);
    return (word >>> (from & 7)) & ((1 << count) - 1);
  }

  /** Reads `count` bits (0 to 31). */
  read(count: number): number {
    if (count > 24) {
      const high = this.peek(count - 16);
      this.left -= count - 16;
      const low = this.peek(16);
      this.left -= 16;
      return (high << 16) | low;
    }
    const bits = this.peek(count);
    this.left -= count;
    return bits;
  }
}

/** A table of a finite state entropy code. */
export class FseTable {
  accuracyLog = 0;
  readonly symbols: Uint8Array;
  readonly bits: Uint8Array;
  readonly bases: Uint16Array;
  readonly #maxLog: number;
  readonly #maxSymbol: number;
  readonly #counts = new Int16Array(256);
  readonly #next = new Uint16Array(256);

  constructor(maxLog: number, maxSymbol: number) {
    this.#maxLog = maxLog;
    this.#maxSymbol = maxSymbol;
    this.symbols = new Uint8Array(1 << maxLog);
    this.bits = new Uint8Array(1 << maxLog);
    this.bases = new Uint16Array(1 << maxLog);
  }

  /** A table of one symbol that takes no bits. */
  setSingle(symbol: number): void {
    if (symbol > this.#maxSymbol) {
      throw corruptZstd();
    }
    this.accuracyLog = 0;
    this.symbols[0] = symbol;
    this.bits[0] = 0;
    this.bases[0] = 0;
  }

  /** Builds the table of a given distribution. */
  setCounts(counts: readonly number[], accuracyLog: number): void {
    this.#counts.fill(0);
    this.#counts.set(counts);
    this.accuracyLog = accuracyLog;
    this.#build(counts.length);
  }

  /** Reads a table description (section 4.1.1). @returns the position behind it. */
  read(view: DataView, start: number, end: number): number {
    if (start >= end) {
      throw corruptZstd();
    }
    const limit = (end - start) * 8;
    let bit = 0;
    const peek = (count: number): number => {
      if (bit >= limit) {
        throw corruptZstd();
      }
      return (view.getUint32(start + (bit >> 3), true) >>> (bit & 7)) & ((1 << count) - 1);
    };
    this.accuracyLog = peek(4) + 5;
    bit += 4;
    if (this.accuracyLog > this.#maxLog) {
      throw corruptZstd();
    }
    let remaining = 1 << this.accuracyLog;
    let symbol = 0;
    while (remaining > 0) {
      if (symbol > this.#maxSymbol) {
        throw corruptZstd();
      }
      const count = highestBit(remaining + 1) + 1;
      let value = peek(count);
      const lowMask = (1 << (count - 1)) - 1;
      const threshold = (1 << count) - 1 - (remaining + 1);
      if ((value & lowMask) < threshold) {
        value &= lowMask;
        bit += count - 1;
      } else {
        if (value > lowMask) {
          value -= threshold;
        }
        bit += count;
      }
      const probability = value - 1;
      remaining -= Math.abs(probability);
      this.#counts[symbol++] = probability;
      if (probability !== 0) {
        continue;
      }
      for (let repeat = 3; repeat === 3;) {
        repeat = peek(2);
        bit += 2;
        if (symbol + repeat > this.#maxSymbol + 1) {
          throw corruptZstd();
        }
        this.#counts.fill(0, symbol, symbol + repeat);
        symbol += repeat;
      }
    }
    if (remaining !== 0 || bit > limit) {
      throw corruptZstd();
    }
    this.#build(symbol);
    return start + ((bit + 7) >> 3);
  }

  #build(symbolCount: number): void {
    const size = 1 << this.accuracyLog;
    const { symbols, bits, bases } = this;
    const counts = this.#counts;
    const next = this.#next;
    let high = size - 1;
    for (let symbol = 0; symbol < symbolCount; symbol++) {
      next[symbol] = Math.abs(counts[symbol]!);
      if (counts[symbol] === -1) {
        symbols[high--] = symbol;
      }
    }
    const step = (size >> 1) + (size >> 3) + 3;
    let at = 0;
    for (let symbol = 0; symbol < symbolCount; symbol++) {
      for (let count = counts[symbol]!; count > 0; count--) {
        symbols[at] = symbol;
        do {
          at = (at + step) & (size - 1);
        } while (at > high);
      }
    }
    if (at !== 0) {
      throw corruptZstd();
    }
    for (let state = 0; state < size; state++) {
      const symbol = symbols[state]!;
      const order = next[symbol]!;
      next[symbol] = order + 1;
      bits[state] = this.accuracyLog - highestBit(order);
      bases[state] = (order << bits[state]!) - size;
    }
  }
}

const maxHuffmanBits = 11;

/** A Huffman code of literals (section 4.2). */
export class HuffmanTable {
  maxBits = 0;
  readonly symbols = new Uint8Array(1 << maxHuffmanBits);
  readonly bits = new Uint8Array(1 << maxHuffmanBits);
  readonly #weights = new Uint8Array(256);
  readonly #fse = new FseTable(6, 255);

  /** Reads a tree description (section 4.2.1). @returns the position behind it. */
  read(view: DataView, start: number, end: number, stream: BackwardBits): number {
    if (start >= end) {
      throw corruptZstd();
    }
    const header = view.getUint8(start);
    const pos = start + 1;
    if (header < 128) {
      const stop = pos + header;
      if (stop > end) {
        throw corruptZstd();
      }
      const bitsStart = this.#fse.read(view, pos, stop);
      this.#build(this.#readWeights(bitsStart, stop, stream));
      return stop;
    }
    const count = header - 127;
    const stop = pos + ((count + 1) >> 1);
    if (stop > end) {
      throw corruptZstd();
    }
    for (let index = 0; index < count; index++) {
      const byte = view.getUint8(pos + (index >> 1));
      this.#weights[index] = (index & 1) === 0 ? byte >> 4 : byte & 15;
    }
    this.#build(count);
    return stop;
  }

  /** Weights come from two states in turn, until the bits run out (section 4.2.1.2). */
  #readWeights(start: number, end: number, stream: BackwardBits): number {
    const { accuracyLog, symbols, bits, bases } = this.#fse;
    stream.attach(start, end);
    let state = stream.read(accuracyLog);
    let other = stream.read(accuracyLog);
    if (stream.left < 0) {
      throw corruptZstd();
    }
    let count = 0;
    for (;;) {
      if (count >= 254) {
        throw corruptZstd();
      }
      this.#weights[count++] = symbols[state]!;
      const next = bases[state]! + stream.read(bits[state]!);
      if (stream.left < 0) {
        this.#weights[count++] = symbols[other]!;
        return count;
      }
      state = other;
      other = next;
    }
  }

  /** Fills the table; the weight of the last symbol follows from the others. */
  #build(count: number): void {
    const weights = this.#weights;
    let total = 0;
    for (let symbol = 0; symbol < count; symbol++) {
      if (weights[symbol]! > maxHuffmanBits) {
        throw corruptZstd();
      }
      if (weights[symbol] !== 0) {
        total += 1 << (weights[symbol]! - 1);
      }
    }
    if (total === 0) {
      throw corruptZstd();
    }
    this.maxBits = highestBit(total) + 1;
    if (this.maxBits > maxHuffmanBits) {
      throw corruptZstd();
    }
    const rest = (1 << this.maxBits) - total;
    if ((rest & (rest - 1)) !== 0) {
      throw corruptZstd();
    }
    weights[count] = highestBit(rest) + 1;
    let at = 0;
    for (let weight = 1; weight <= this.maxBits; weight++) {
      for (let symbol = 0; symbol <= count; symbol++) {
        if (weights[symbol] !== weight) {
          continue;
        }
        const stop = at + (1 << (weight - 1));
        this.symbols.fill(symbol, at, stop);
        this.bits.fill(this.maxBits + 1 - weight, at, stop);
        at = stop;
      }
    }
  }

  /** Decodes one stream into `target[at, stop)`; the stream must end with its last symbol. */
  decode(stream: BackwardBits, target: Uint8Array, at: number, stop: number): void {
    const { symbols, bits, maxBits } = this;
    for (; at < stop; at++) {
      const code = stream.peek(maxBits);
      target[at] = symbols[code]!;
      stream.left -= bits[code]!;
    }
    if (stream.left !== 0) {
      throw corruptZstd();
    }
  }
}
