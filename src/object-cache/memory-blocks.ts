/** Blocks in memory, within a bound of bytes; what was read longest ago goes first. */

/** See the head of the file. */
export class MemoryBlocks {
  readonly #maxBytes: number;
  readonly #onEvicted: (name: string, bytes: number) => void;
  /** In the order of their last use. */
  readonly #blocks = new Map<string, Uint8Array>();
  #bytes = 0;

  constructor(maxBytes: number, onEvicted: (name: string, bytes: number) => void) {
    this.#maxBytes = maxBytes;
    this.#onEvicted = onEvicted;
  }

  get bytes(): number {
    return this.#bytes;
  }

  has(name: string): boolean {
    return this.#blocks.has(name);
  }

  /** The block, which must not be changed; null when it is not here. */
  get(name: string): Uint8Array | null {
    const block = this.#blocks.get(name);
    if (block === undefined) {
      return null;
    }
    this.#blocks.delete(name);
    this.#blocks.set(name, block);
    return block;
  }

  /** Keeps a block and lets go of others. Whoever reads one of those still has it. */
  put(name: string, block: Uint8Array): void {
    this.delete(name);
    if (block.length > this.#maxBytes) {
      return;
    }
    this.#blocks.set(name, block);
    this.#bytes += block.length;
    for (const [oldest, { length }] of this.#blocks) {
      if (this.#bytes <= this.#maxBytes) {
        return;
      }
      this.delete(oldest);
      this.#onEvicted(oldest, length);
    }
  }

  delete(name: string): void {
    const block = this.#blocks.get(name);
    if (block !== undefined) {
      this.#blocks.delete(name);
      this.#bytes -= block.length;
    }
  }
}
