/**
 * Looks at the first bytes of a connection before it is taken for gRPC, and tells who speaks something else where to
 * go: a gRPC library would cut the connection without a word.
 */
import type { Socket } from "node:net";

/** What {@link onFirstBytes} makes of a connection. */
export type FirstBytes =
  /** HTTP/2, or TLS where TLS is expected. */
  | "expected"
  | "HTTP/1"
  /** HTTP/2 where TLS is expected. */
  | "HTTP/2 without TLS"
  | "TLS"
  | "no HTTP";

/** How long a connection may take to say anything. */
const silenceMs = 10_000;
/** How long a client that was refused may take to read that. */
const lingerMs = 1000;
/** As much of HTTP/2's preface as no method of HTTP/1 begins with. */
const preface = Buffer.from("PRI * HTTP/2");
const tlsHandshake = 0x16;

/**
 * Calls back once with what a connection speaks; all of its bytes are still there to be read then. Not called for a
 * connection that ends before, or that stays silent, which is cut.
 */
export function onFirstBytes(socket: Socket, tls: boolean, judged: (first: FirstBytes) => void): void {
  let bytes: Buffer = Buffer.alloc(0);
  // Later errors are met by whoever takes the connection over.
  socket.on("error", () => undefined);
  const silence = setTimeout(() => socket.destroy(), silenceMs).unref();
  const read = (): void => {
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) {
      return;
    }
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    const first = judge(bytes, tls);
    if (first === null) {
      return;
    }
    done();
    socket.unshift(bytes);
    judged(first);
  };
  const done = (): void => {
    clearTimeout(silence);
    socket.off("readable", read);
    socket.off("end", end);
    socket.off("close", done);
  };
  const end = (): void => {
    socket.destroy();
  };
  socket.on("readable", read);
  socket.once("end", end);
  socket.once("close", done);
}

/** Null: more bytes are needed. */
function judge(bytes: Buffer, tls: boolean): FirstBytes | null {
  const speaksTls = bytes[0] === tlsHandshake;
  if (speaksTls) {
    return tls ? "expected" : "TLS";
  }
  const begun = Math.min(bytes.length, preface.length);
  if (bytes.compare(preface, 0, begun, 0, begun) === 0) {
    return begun < preface.length ? null : tls ? "HTTP/2 without TLS" : "expected";
  }
  return /^[A-Z]{3,20} /.test(bytes.toString("latin1", 0, 24)) ? "HTTP/1" : "no HTTP";
}

/** Answers a request of HTTP/1 with 400 and a sentence, and ends its connection. */
export function answerHttp1(socket: Socket, sentence: string): void {
  const body = `${sentence}\n`;
  const fields = ["Content-Type: text/plain; charset=utf-8", `Content-Length: ${Buffer.byteLength(body)}`];
  socket.end(`HTTP/1.1 400 Bad Request\r\n${fields.join("\r\n")}\r\nConnection: close\r\n\r\n${body}`);
  // Destroyed at once, bytes that nobody read would keep the client from reading the answer.
  socket.resume();
  setTimeout(() => socket.destroy(), lingerMs).unref();
}
