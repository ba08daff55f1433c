/**
 * The body of a request, ready to be read: inflated if need be, as protobuf, in memory of our own.
 *
 * Every body is copied, even one that could be read in place: crypto refuses shared memory, V8 reads it more slowly,
 * and the reader needs room around its input. `TypedArray.set` out of shared memory goes by words at best (0.1 ns a
 * byte, or 0.8 when the sides are aligned differently); a fill of one pattern length is a memcpy (0.03 ns a byte).
 */
import { freeHuge } from "../runtime/free-buffer.js";
import { headroom, slack } from "../wire/protobuf-reader.js";
import { inflate, InflatedSizeError } from "./body/inflate.js";
import { JsonTranscoder } from "./body/json-transcoder.js";
import type { BodyHead } from "./body-head.js";

/** A protobuf message at `[start, end)` of `bytes`, with the reader's headroom and slack around it. */
interface LoadedRequest {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

const initialBytes = 256 * 1024;
/** Bytes that one of deflate can become. */
const mostInflated = 1032;
/** Memory that is kept between requests. */
const keptBytes = 8 * 1024 * 1024;

/** See the head of this file. */
export class RequestInput {
  readonly #maxInflatedBytes: number;
  readonly #transcoder: JsonTranscoder;
  #memory = new Uint8Array(headroom + initialBytes + slack);
  /** The same memory, for its fill. */
  #fillable = Buffer.from(this.#memory.buffer);
  readonly #start = headroom;
  #end = headroom;
  #inflatedBytes = 0;

  constructor(options: { readonly maxInflatedBytes: number; readonly maxDepth: number }) {
    this.#maxInflatedBytes = options.maxInflatedBytes;
    this.#transcoder = new JsonTranscoder(options.maxDepth);
  }

  /** What the last body took to inflate, in bytes: its size, or where that failed the most that it can have been. */
  get inflatedBytes(): number {
    return this.#inflatedBytes;
  }

  /** Loads a body. Throws MalformedError or InflatedSizeError. */
  load(body: Uint8Array, head: BodyHead): LoadedRequest {
    const limit = this.#maxInflatedBytes;
    if (head.encoding === "identity" && body.length > limit) {
      throw new InflatedSizeError(`the body is larger than ${limit} bytes`);
    }
    this.release();
    this.#append(body);
    this.#inflatedBytes = body.length;
    if (head.encoding !== "identity") {
      this.#inflatedBytes = Math.min(limit, body.length * mostInflated);
      const parts = inflate(this.#memory.subarray(this.#start, this.#end), head.encoding, limit);
      this.release();
      for (const part of parts) {
        this.#append(part);
        // It may be the filled part of a larger buffer.
        freeHuge(new Uint8Array(part.buffer));
      }
    }
    this.#inflatedBytes = this.#end - this.#start;
    if (head.format === "protobuf") {
      return { bytes: this.#memory, start: this.#start, end: this.#end };
    }
    const output = this.#transcoder.transcode(head.signal, this.#memory, this.#start, this.#end);
    return { bytes: output.bytes, start: headroom, end: output.at };
  }

  /** Forgets the input, and gives back memory beyond measure. */
  release(): void {
    this.#transcoder.release();
    if (this.#memory.length > keptBytes) {
      this.#replaceMemory(new Uint8Array(headroom + initialBytes + slack));
    }
    this.#end = this.#start;
  }

  #append(source: Uint8Array): void {
    if (source.length === 0) {
      return;
    }
    const end = this.#end + source.length;
    if (end + slack > this.#memory.length) {
      const grown = new Uint8Array(Math.max(end + slack, this.#memory.length * 2));
      grown.set(this.#memory.subarray(0, this.#end));
      this.#replaceMemory(grown);
    }
    this.#fillable.fill(source, this.#end, end);
    this.#end = end;
  }

  #replaceMemory(memory: Uint8Array<ArrayBuffer>): void {
    freeHuge(this.#memory);
    this.#memory = memory;
    this.#fillable = Buffer.from(memory.buffer);
  }
}
