/** From `FlightData` frames to the bytes of an Arrow IPC stream (Arrow columnar format, "IPC Streaming Format"). */
import type { FlightDataFrame } from "./flight-messages.js";

const continuation = 0xffff_ffff;

/** Ends an IPC stream: a continuation marker and a length of zero. */
const endOfStream: Uint8Array = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0);

/**
 * The pieces of one encapsulated message: prefix, header padded to 8 bytes, body padded to 8 bytes.
 * Header and body are passed on, not copied.
 */
function encapsulate(frame: FlightDataFrame): Uint8Array[] {
  const prefix = new Uint8Array(8);
  const view = new DataView(prefix.buffer);
  const headerPadding = padding(frame.header.length);
  view.setUint32(0, continuation, true);
  view.setUint32(4, frame.header.length + headerPadding, true);
  const pieces: Uint8Array[] = [prefix, frame.header];
  if (headerPadding > 0) pieces.push(new Uint8Array(headerPadding));
  if (frame.body.length > 0) {
    pieces.push(frame.body);
    const bodyPadding = padding(frame.body.length);
    if (bodyPadding > 0) pieces.push(new Uint8Array(bodyPadding));
  }
  return pieces;
}

function padding(length: number): number {
  return (8 - (length % 8)) % 8;
}

/** The IPC stream of a sequence of frames; frames without a header are skipped. */
export async function* ipcStream(
  frames: AsyncIterable<FlightDataFrame>,
): AsyncGenerator<Uint8Array> {
  for await (const frame of frames) {
    if (frame.header.length > 0) yield* encapsulate(frame);
  }
  yield endOfStream;
}
