/**
 * Closes connections so that no call can arrive in between. Node.js 20, and others before the middle of 2026, free a
 * stream that arrives after `session.close()` and before its GOAWAY has left, and go on using it: the heap breaks and
 * the process ends (nodejs/node#64113). A GOAWAY from the client calls `close`, so anybody could do that.
 */
import type { Server } from "@grpc/grpc-js";
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

import { http2ServersOf } from "./http2-servers.js";

/**
 * From now on connections are closed that way. Call it when the server is bound.
 * @throws ServiceError INTERNAL when the library has changed, rather than serve without
 */
export function closeConnectionsSafely(server: Server): void {
  for (const http2 of http2ServersOf(server)) {
    let newest: Socket | null = null;
    for (const event of ["connection", "secureConnection"]) {
      http2.prependListener(event, (socket: Socket) => {
        newest = socket;
      });
    }
    // While the event of its socket is handled; the session itself gives it to nobody.
    http2.on("session", (session: ServerHttp2Session) => {
      replaceClose(session, newest);
    });
  }
}

/** Time in milliseconds for the peer to close its end of a connection that was closed. */
const lingerMs = 1000;

/**
 * Says farewell first, and closes and ends the connection in one step when no call is under way. What it has written
 * leaves, and a peer that does not close its end does not keep the socket.
 */
function replaceClose(session: ServerHttp2Session, socket: Socket | null): void {
  const close = session.close.bind(session);
  let calls = 0;
  let closing = false;
  // Not at once: it may be the parser that has called, with calls behind that nobody knows of yet.
  const endIfIdle = (): void => {
    setImmediate(() => {
      if (calls === 0 && !session.destroyed) {
        close();
        session.destroy();
        const timer = setTimeout(() => socket?.destroy(), lingerMs);
        timer.unref();
        socket?.once("close", () => {
          clearTimeout(timer);
        });
      }
    });
  };
  session.on("stream", (stream) => {
    calls++;
    stream.once("close", () => {
      calls--;
      if (closing) {
        endIfIdle();
      }
    });
  });
  session.close = (callback) => {
    if (session.destroyed) {
      return;
    }
    if (callback !== undefined) {
      session.once("close", callback);
    }
    if (closing) {
      return;
    }
    closing = true;
    // Calls behind it are refused when it leaves.
    session.goaway();
    endIfIdle();
  };
}
