/**
 * The server's end of the stream to an engine, read without copies: bytes of a large frame go straight into its own
 * memory. `child_process` makes its sockets itself and offers no `onread`, so the stream's handle is given to a socket
 * that has it. Reading as events takes 0.3 to 0.8 s of processor time more for each gigabyte.
 */
import { type OnReadOpts, Socket, type SocketConstructorOpts } from "node:net";
import type { Duplex } from "node:stream";

import type { FrameReader } from "./frames.js";

/**
 * Reads frames from a stream of a child process from now on.
 * @param onBroken told when what came is none
 * @returns the stream to write to and to destroy
 */
export function readFrames(stream: Duplex, reader: FrameReader, onBroken: () => void): Duplex {
  const take = (bytes: number): boolean => {
    try {
      reader.filled(bytes);
      return true;
    } catch {
      onBroken();
      return false;
    }
  };
  const owner = stream as Duplex & { _handle?: unknown };
  const handle = owner._handle;
  if (handle === undefined || handle === null) {
    throw new TypeError("the stream has no handle");
  }
  owner._handle = null;
  const onread = { buffer: () => reader.room(), callback: take };
  // Node.js knows `handle`, its types do not.
  const options: SocketConstructorOpts & { handle: unknown; onread: OnReadOpts } = {
    handle,
    onread,
  };
  const socket = new Socket(options);
  // The one that it was taken from goes with it: a child process has ended when all of its streams have.
  socket.on("close", () => stream.destroy());
  socket.resume();
  return socket;
}
