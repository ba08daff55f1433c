/**
 * The body of a request, ready to be read: inflated if need be, as protobuf, in memory of our own.
 *
 * Even a body that could be read in place is copied. It lies in shared memory, which crypto refuses
 * and which V8 reads slower; and the reader wants room around its input. V8 copies out of shared memory
 * in words only when both sides are aligned alike (0.1 ns a byte, else 0.8), so they are.
 */
import { headroom, MalformedError, slack } from "../wire/protobuf-reader.js";
import type { OtlpFormat, OtlpSignal } from "../wire/rpc-status.js";
import type { BodyEncoding } from "./request.js";

/** A body inflates to more than it may. */
export class InflatedSizeError extends Error {
  override readonly name = "InflatedSizeError";
}

/** A protobuf message at `[start, end)` of `bytes`, with the reader's headroom and slack around it. */
export interface LoadedRequest {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
  /** Size of the inflated body, in the format in which it was sent. */
  readonly inflatedBytes: number;
}

/** Memory that is kept between requests. */
const keptBytes = 8 * 1024 * 1024;

/** See the head of this file. */
export class RequestInput {
  readonly #maxInflatedBytes: number;
  #memory = new Uint8Array(headroom + 256 * 1024 + slack);

  constructor(options: { readonly maxInflatedBytes: number; readonly maxDepth: number }) {
    this.#maxInflatedBytes = options.maxInflatedBytes;
  }

  /** Loads a body. Throws MalformedError or {@link InflatedSizeError}. */
  load(
    body: Uint8Array,
    head: {
      readonly signal: OtlpSignal;
      readonly format: OtlpFormat;
      readonly encoding: BodyEncoding;
    },
  ): LoadedRequest {
    if (head.encoding !== "identity" || head.format !== "protobuf") {
      throw new MalformedError("not supported yet");
    }
    if (body.length > this.#maxInflatedBytes) {
      throw new InflatedSizeError(`the body is larger than ${this.#maxInflatedBytes} bytes`);
    }
    return this.#copy(body);
  }

  #copy(source: Uint8Array): LoadedRequest {
    const start = headroom + (source.byteOffset & 7);
    const end = start + source.length;
    if (end + slack > this.#memory.length || this.#memory.length > keptBytes) {
      this.#memory = new Uint8Array(Math.max(end + slack, headroom + 256 * 1024 + slack));
    }
    this.#memory.set(source, start);
    return { bytes: this.#memory, start, end, inflatedBytes: source.length };
  }
}
