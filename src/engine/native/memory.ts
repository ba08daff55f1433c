/** Native memory from JavaScript: what C wrote is copied into a small buffer of ours and read there. Hot code. */
import { addressOf, type CLibrary, type Pointer } from "./library.js";

const scratchBytes = 64 * 1024;
/** The first part of the scratch is for results of calls, which fill a few words. */
const outBytes = 256;

/** Reads native memory. One for each thread. */
export class NativeMemory {
  readonly #c: CLibrary;
  readonly #scratch = Buffer.allocUnsafeSlow(scratchBytes).fill(0);
  readonly #view = new DataView(this.#scratch.buffer);
  readonly #address = addressOf(this.#scratch);

  constructor(c: CLibrary) {
    this.#c = c;
  }

  /** Where a call may write word `index` (of 64 bits, 0 to 31) of its result; it is 0 beforehand. */
  out(index = 0): Pointer {
    this.#view.setBigUint64(index * 8, 0n, true);
    return this.#address + index * 8;
  }

  /** The address of a word that holds an address: where a call empties it. */
  box(value: Pointer): Pointer {
    this.#view.setBigUint64(0, BigInt(value), true);
    return this.#address;
  }

  /** What a call wrote to {@link out}, an address. */
  taken(index = 0): Pointer {
    return this.#word(index * 8);
  }

  /**
   * Brings up to 64,000 bytes into the scratch, for {@link pointer} and {@link int32}.
   * @param at behind it, a multiple of 8
   */
  load(from: Pointer, bytes: number, at = 0): void {
    if (outBytes + at + bytes > scratchBytes) {
      throw new RangeError("the scratch is too small");
    }
    this.#c.memcpy(this.#address + outBytes + at, from, bytes);
  }

  /** The address, or the number below 2**53, at byte `at` of what was loaded. */
  pointer(at: number): number {
    return this.#word(outBytes + at);
  }

  /** The number of 32 bits at byte `at` of what was loaded. */
  int32(at: number): number {
    return this.#view.getInt32(outBytes + at, true);
  }

  /** What was loaded, valid until something else is. */
  loaded(bytes: number): Uint8Array {
    return this.#scratch.subarray(outBytes, outBytes + bytes);
  }

  /** The address at `at`. */
  pointerAt(at: Pointer): Pointer {
    this.load(at, 8);
    return this.pointer(0);
  }

  /** A copy of bytes. */
  bytes(from: Pointer, length: number): Uint8Array {
    const copy = Buffer.allocUnsafeSlow(length);
    if (length > 0) {
      this.#c.memcpy(addressOf(copy), from, length);
    }
    return copy;
  }

  /** A text that ends with a NUL. */
  text(from: Pointer): string {
    return from === 0 ? "" : Buffer.from(this.bytes(from, this.#c.strlen(from))).toString();
  }

  #word(at: number): number {
    return this.#view.getUint32(at, true) + this.#view.getUint32(at + 4, true) * 2 ** 32;
  }
}

/** Words of 64 bits, addresses and sizes, for C to read; one more, because some calls take no words for a mistake. */
export function words(values: readonly number[]): BigUint64Array {
  return BigUint64Array.from([...values, 0], BigInt);
}
