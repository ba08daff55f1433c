/** Parts of a stream for a reader that waits for them; nothing is copied. */
export class ByteQueue implements AsyncIterable<Uint8Array> {
  readonly #parts: Uint8Array[] = [];
  #closed = false;
  #wake: (() => void) | null = null;

  push(part: Uint8Array): void {
    this.#parts.push(part);
    this.#wake?.();
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const part = this.#parts.shift();
      if (part !== undefined) {
        yield part;
      } else if (this.#closed) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        this.#wake = null;
      }
    }
  }
}
