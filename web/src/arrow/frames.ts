/**
 * The stream of a query: a sequence of frames, each one byte of kind, four bytes of length (little endian), and as many
 * bytes. A payload gets memory of its own, aligned, so that typed arrays can look at it and another thread can take it.
 */

type FrameKind = "S" | "B" | "P" | "D" | "E";

interface Frame {
  readonly kind: FrameKind;
  readonly payload: Uint8Array<ArrayBuffer>;
}

const headBytes = 5;
/** Far above what a server sends; more is a stream of something else. */
const maxPayloadBytes = 512 * 1024 * 1024;
const kinds = new Set<string>(["S", "B", "P", "D", "E"]);

/** Parts come in as the network cut them. */
export class FrameReader {
  readonly #head = new Uint8Array(headBytes);
  #headFilled = 0;
  #payload: Uint8Array<ArrayBuffer> | null = null;
  #payloadFilled = 0;

  /** The frames that this part completes. @throws Error when it is no such stream. */
  *push(part: Uint8Array): Generator<Frame> {
    let at = 0;
    while (at < part.length || this.#isComplete()) {
      if (this.#isComplete()) {
        yield this.#take();
        continue;
      }
      if (this.#payload === null) {
        const taken = part.subarray(at, at + headBytes - this.#headFilled);
        this.#head.set(taken, this.#headFilled);
        this.#headFilled += taken.length;
        at += taken.length;
        if (this.#headFilled === headBytes) {
          this.#payload = new Uint8Array(this.#announcedBytes());
          this.#payloadFilled = 0;
        }
      } else {
        const taken = part.subarray(at, at + this.#payload.length - this.#payloadFilled);
        this.#payload.set(taken, this.#payloadFilled);
        this.#payloadFilled += taken.length;
        at += taken.length;
      }
    }
  }

  #isComplete(): boolean {
    return this.#payload !== null && this.#payloadFilled === this.#payload.length;
  }

  #announcedBytes(): number {
    const bytes = new DataView(this.#head.buffer).getUint32(1, true);
    if (!kinds.has(this.#kind()) || bytes > maxPayloadBytes) {
      throw new Error("the answer is no stream of frames");
    }
    return bytes;
  }

  #kind(): string {
    return String.fromCharCode(this.#head[0] ?? 0);
  }

  #take(): Frame {
    const payload = this.#payload ?? new Uint8Array(0);
    this.#payload = null;
    this.#headFilled = 0;
    return { kind: this.#kind() as FrameKind, payload };
  }
}
