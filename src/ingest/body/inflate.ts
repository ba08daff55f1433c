/**
 * Content codings of request bodies (RFC 9110 section 8.4.1): gzip, deflate, zstd. Inflation stops at the limit; it is
 * not checked afterwards. Input that is truncated, corrupt or longer than its coding says is malformed.
 *
 * Synchronous zlib is right here: it runs in an encode worker, which has nothing else to do.
 */
import { crc32, inflateRawSync, inflateSync } from "node:zlib";

import { MalformedError } from "../../wire/protobuf-reader.js";
import { decompressZstd } from "./zstd.js";

/** A body inflates to more than it may. */
export class InflatedSizeError extends Error {
  override readonly name = "InflatedSizeError";
}

/** A gzip stream of many tiny members costs far more than its size; nobody sends one. */
const maxGzipMembers = 4096;

/** Bytes that zlib inflates at a time unless the size is known: about the inflated size of the input. */
function chunkBytes(input: Uint8Array): number {
  return Math.min(Math.max(input.length * 8, 4096), 256 * 1024);
}

const gzipHeaderBytes = 10;
const gzipTrailerBytes = 8;
const gzipFlag = { headerCrc: 2, extra: 4, name: 8, comment: 16, reserved: 0xe0 } as const;

const corrupt = "the compressed body is corrupt";
const truncated = "the compressed body is truncated";
const trailing = "something follows the compressed body";

interface Inflated {
  readonly output: Uint8Array;
  /** Bytes of the input that belonged to the stream. */
  readonly consumed: number;
}

/** Runs one of zlib's synchronous functions; `sizeHint` sizes its first piece of output. */
function runZlib(inflateOnce: typeof inflateSync, input: Uint8Array, limit: number, sizeHint: number): Inflated {
  try {
    // With `info` the result is an object, which the types do not tell.
    const result = inflateOnce(input, {
      info: true,
      maxOutputLength: Math.max(limit, 1),
      chunkSize: Math.max(1024, sizeHint + 1),
    }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
    if (result.buffer.length > limit) {
      throw tooLarge(limit);
    }
    return { output: result.buffer, consumed: result.engine.bytesWritten };
  } catch (error) {
    if (error instanceof InflatedSizeError) {
      throw error;
    }
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (code === "ERR_BUFFER_TOO_LARGE") {
      throw tooLarge(limit);
    }
    if (code === "Z_BUF_ERROR") {
      throw new MalformedError(truncated);
    }
    if (code.startsWith("Z_")) {
      throw new MalformedError(corrupt);
    }
    throw error;
  }
}

function tooLarge(limit: number): InflatedSizeError {
  return new InflatedSizeError(`the body inflates to more than ${limit} bytes`);
}

/** Where the compressed data of a gzip member (RFC 1952) starts that begins at `start`. */
function gzipDataStart(input: Uint8Array, start: number): number {
  if (input.length - start < gzipHeaderBytes + gzipTrailerBytes) {
    throw new MalformedError(truncated);
  }
  if (input[start] !== 0x1f || input[start + 1] !== 0x8b) {
    throw new MalformedError(start === 0 ? "the body is not gzip" : trailing);
  }
  const flags = input[start + 3]!;
  if (input[start + 2] !== 8 || (flags & gzipFlag.reserved) !== 0) {
    throw new MalformedError(corrupt);
  }
  let pos = start + gzipHeaderBytes;
  if ((flags & gzipFlag.extra) !== 0) {
    pos += 2 + (input[pos]! | (input[pos + 1]! << 8));
  }
  for (const flag of [gzipFlag.name, gzipFlag.comment]) {
    if ((flags & flag) === 0) {
      continue;
    }
    const zero = input.indexOf(0, pos);
    if (zero === -1) {
      throw new MalformedError(truncated);
    }
    pos = zero + 1;
  }
  if ((flags & gzipFlag.headerCrc) !== 0) {
    pos += 2;
  }
  if (pos > input.length - gzipTrailerBytes) {
    throw new MalformedError(truncated);
  }
  return pos;
}

function gunzip(input: Uint8Array, limit: number): Uint8Array[] {
  const view = new DataView(input.buffer, input.byteOffset, input.byteLength);
  const parts: Uint8Array[] = [];
  let isBelieved = true;
  let rest = limit;
  let pos = 0;
  do {
    if (parts.length === maxGzipMembers) {
      throw new MalformedError("the body has too many gzip members");
    }
    pos = gzipDataStart(input, pos);
    // The size at the end is that of the last member; it is only a hint, and it may lie: once.
    const claimed = view.getUint32(input.length - 4, true);
    const plausible = Math.min(claimed, rest, (input.length - pos) * 1032);
    const { output, consumed } = runZlib(
      inflateRawSync,
      input.subarray(pos),
      rest,
      Math.min(plausible, isBelieved ? 16 * 1024 * 1024 : 4096),
    );
    isBelieved &&= output.length >= claimed;
    pos += consumed;
    if (pos + gzipTrailerBytes > input.length) {
      throw new MalformedError(truncated);
    }
    if (view.getUint32(pos, true) !== crc32(output) || view.getUint32(pos + 4, true) !== output.length >>> 0) {
      throw new MalformedError(corrupt);
    }
    pos += gzipTrailerBytes;
    rest -= output.length;
    parts.push(output);
  } while (pos < input.length);
  return parts;
}

/** `deflate` is the zlib format (RFC 1950); some senders mean raw deflate (RFC 1951), which is taken too. */
function inflateDeflate(input: Uint8Array, limit: number): Uint8Array {
  const isZlib = input.length > 1 && (input[0]! & 15) === 8 && ((input[0]! << 8) | input[1]!) % 31 === 0;
  if (isZlib) {
    try {
      return whole(runZlib(inflateSync, input, limit, chunkBytes(input)), input);
    } catch (error) {
      // Raw deflate may happen to look like a zlib header: then it is that which has to hold.
      if (!(error instanceof MalformedError) || error.message !== corrupt) {
        throw error;
      }
    }
  }
  return whole(runZlib(inflateRawSync, input, limit, chunkBytes(input)), input);
}

function whole({ output, consumed }: Inflated, input: Uint8Array): Uint8Array {
  if (consumed !== input.length) {
    throw new MalformedError(trailing);
  }
  return output;
}

/**
 * Inflates a body.
 * @param limitBytes of the output. @returns its pieces in order. Throws MalformedError or {@link InflatedSizeError}.
 */
export function inflate(
  input: Uint8Array,
  encoding: "gzip" | "deflate" | "zstd",
  limitBytes: number,
): readonly Uint8Array[] {
  switch (encoding) {
    case "gzip":
      return gunzip(input, limitBytes);
    case "deflate":
      return [inflateDeflate(input, limitBytes)];
    case "zstd":
      return decompressZstd(input, limitBytes, () => tooLarge(limitBytes));
  }
}
