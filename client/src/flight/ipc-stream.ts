/**
 * From `FlightData` frames to the bytes of an Arrow IPC stream (Arrow columnar format, "IPC Streaming Format").
 *
 * A message of the stream is a continuation marker, the length of its header, header and body. The marker is constant,
 * so that of the next message is passed on right behind each body: apache-arrow's reader asks for one piece more than
 * it needs before it hands a batch out, and would otherwise hold every batch back until the server sends the next.
 */
import type { FlightDataFrame } from "./flight-messages.js";

const continuation: Uint8Array = Uint8Array.of(0xff, 0xff, 0xff, 0xff);
/** A header of length zero ends the stream. */
const end: Uint8Array = new Uint8Array(4);

/**
 * The IPC stream of a sequence of frames, in pieces; headers and bodies are passed on, not copied.
 * Frames without a header are skipped. A sequence without any message is an empty stream.
 */
export async function* ipcStream(frames: AsyncIterable<FlightDataFrame>): AsyncGenerator<Uint8Array> {
  let started = false;
  for await (const frame of frames) {
    if (frame.header.length === 0) {
      continue;
    }
    if (!started) {
      yield continuation;
    }
    started = true;
    yield* padded(frame.header, true);
    if (frame.body.length > 0) {
      yield* padded(frame.body, false);
    }
    yield continuation;
  }
  if (started) {
    yield end;
  }
}

/** Bytes and what fills them up to a multiple of 8, behind their padded length where that is asked for. */
function padded(bytes: Uint8Array, withLength: boolean): Uint8Array[] {
  const padding = (8 - (bytes.length % 8)) % 8;
  const pieces = padding === 0 ? [bytes] : [bytes, new Uint8Array(padding)];
  if (!withLength) {
    return pieces;
  }
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, bytes.length + padding, true);
  return [length, ...pieces];
}
