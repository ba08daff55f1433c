/**
 * Connections whose messages come in crumbs are ended: a DATA frame costs some ten microseconds of the main thread,
 * whatever is in it, and Node.js reads megabytes of them before it looks at anybody else.
 */
import { constants, type Http2Session, type ServerHttp2Stream } from "node:http2";

/** So many frames in a row may be smaller than {@link fairBytes} on average; senders fill 16 KiB. */
const mostFrames = 4096;
const fairBytes = 64;

const counts = new WeakMap<Http2Session, { frames: number; bytes: number }>();

/** Counts a DATA frame behind the first of its call; a call of one small message is none that comes in crumbs. */
export function countFrame({ session }: Pick<ServerHttp2Stream, "session">, bytes: number): void {
  if (session === undefined || session.destroyed) {
    return;
  }
  let count = counts.get(session);
  if (count === undefined) {
    count = { frames: 0, bytes: 0 };
    counts.set(session, count);
  }
  count.frames++;
  count.bytes += bytes;
  if (count.frames < mostFrames) {
    return;
  }
  if (count.bytes < mostFrames * fairBytes) {
    session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }
  counts.delete(session);
}
