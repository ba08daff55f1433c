/** A fixed number of bytes that work in flight may hold; who gets none is turned away before it costs anything. */
export class ByteBudget {
  /** The most bytes that can be held at once. */
  readonly limitBytes: number;
  #usedBytes = 0;

  constructor(limitBytes: number) {
    if (!Number.isSafeInteger(limitBytes) || limitBytes < 0) {
      throw new RangeError(`a byte budget takes a whole number of bytes, got ${limitBytes}`);
    }
    this.limitBytes = limitBytes;
  }

  /** Bytes held now. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Takes `n` bytes if they are free; returns false and takes nothing if they are not. */
  tryAcquire(n: number): boolean {
    if (n < 0 || this.#usedBytes + n > this.limitBytes) {
      return false;
    }
    this.#usedBytes += n;
    return true;
  }

  /**
   * Gives `n` bytes back.
   * @throws RangeError when more is given back than is held: an accounting error of the caller.
   */
  release(n: number): void {
    if (n < 0 || n > this.#usedBytes) {
      throw new RangeError(`released ${n} bytes of a budget that holds ${this.#usedBytes}`);
    }
    this.#usedBytes -= n;
  }
}
