/**
 * Frames on the stream between server and engine, in both directions: length of the payload (u32, little endian),
 * kind (one byte), payload. Hot code: a payload that is still under way is read into its own memory, so bytes are
 * copied only when several frames, or the beginning of one, came in one read of {@link scratchBytes}.
 */

/** Length and kind. */
export const frameHeadBytes = 5;

/** Small frames are read together, up to this many bytes at a time. */
const scratchBytes = 4096;

/** Writes the head of a frame. */
export function writeFrameHead(target: Uint8Array, at: number, kind: number, payloadBytes: number): void {
  new DataView(target.buffer, target.byteOffset).setUint32(at, payloadBytes, true);
  target[at + 4] = kind;
}

/** A whole frame. */
export function encodeFrame(kind: number, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(frameHeadBytes + payload.length);
  writeFrameHead(frame, 0, kind, payload.length);
  frame.set(payload, frameHeadBytes);
  return frame;
}

/** A whole frame of JSON. */
export function encodeJsonFrame(kind: number, value: unknown): Uint8Array<ArrayBuffer> {
  return encodeFrame(kind, Buffer.from(JSON.stringify(value)));
}

/** A whole frame of numbers, 0 to 2**32 - 1 each. */
export function encodeNumberFrame(kind: number, ...values: number[]): Uint8Array<ArrayBuffer> {
  const payload = new Uint8Array(4 * values.length);
  const view = new DataView(payload.buffer);
  for (const [i, value] of values.entries()) {
    view.setUint32(4 * i, value, true);
  }
  return encodeFrame(kind, payload);
}

/** A number of such a frame. @throws RangeError when it has no number there */
export function decodeNumber(payload: Uint8Array, index = 0): number {
  const { buffer, byteOffset, byteLength } = payload;
  return new DataView(buffer, byteOffset, byteLength).getUint32(4 * index, true);
}

/**
 * Takes a stream of bytes apart. Either {@link push} what was read, or read into {@link room} and say how much
 * came ({@link filled}): that is what the `onread` option of a socket wants, and saves a copy.
 */
export class FrameReader {
  readonly #scratch = new Uint8Array(scratchBytes);
  /** Bytes in the scratch. */
  #held = 0;
  /** The payload under way, as far as it has come; null between frames. */
  #payload: Uint8Array<ArrayBuffer> | null = null;
  #have = 0;
  #kind = 0;
  readonly #maxPayloadBytes: number;
  readonly #onFrame: (kind: number, payload: Uint8Array<ArrayBuffer>) => void;

  /** @param onFrame gets memory that is its own */
  constructor(maxPayloadBytes: number, onFrame: (kind: number, payload: Uint8Array<ArrayBuffer>) => void) {
    this.#maxPayloadBytes = maxPayloadBytes;
    this.#onFrame = onFrame;
  }

  /** Where the next bytes go; never empty. It changes with every call of {@link filled}. */
  room(): Uint8Array {
    return this.#payload?.subarray(this.#have) ?? this.#scratch.subarray(this.#held);
  }

  /** Tells that this many bytes of {@link room} have come. @throws RangeError when a frame is too long */
  filled(bytes: number): void {
    if (this.#payload === null) {
      this.#held += bytes;
      this.#takeScratch();
      return;
    }
    this.#have += bytes;
    this.#finish();
  }

  /** Takes the next bytes of the stream. @throws RangeError when a frame is too long */
  push(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      const room = this.room();
      const count = Math.min(room.length, chunk.length - at);
      room.set(chunk.subarray(at, at + count));
      at += count;
      this.filled(count);
    }
  }

  #takeScratch(): void {
    let at = 0;
    while (this.#payload === null && this.#held - at >= frameHeadBytes) {
      const length = decodeNumber(this.#scratch.subarray(at, at + 4));
      if (length > this.#maxPayloadBytes) {
        throw new RangeError(`a frame of ${length} bytes, where ${this.#maxPayloadBytes} is most`);
      }
      this.#kind = this.#scratch[at + 4] ?? 0;
      at += frameHeadBytes;
      this.#have = Math.min(length, this.#held - at);
      // Memory of its own, not zeroed: all of it is written before anyone sees it.
      this.#payload = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
      this.#payload.set(this.#scratch.subarray(at, at + this.#have));
      at += this.#have;
      this.#finish();
    }
    this.#scratch.copyWithin(0, at, this.#held);
    this.#held -= at;
  }

  #finish(): void {
    const payload = this.#payload;
    if (payload === null || this.#have < payload.length) {
      return;
    }
    this.#payload = null;
    this.#onFrame(this.#kind, payload);
  }
}
