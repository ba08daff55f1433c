/**
 * One keep-alive HTTP/1.1 connection with one request at a time, on a bare socket: an HTTP library
 * would cost more CPU than the server under test, on the same two cores.
 */
import net from "node:net";

/** Called when the answer of the request in flight is complete. */
export type AnswerHandler = (status: number) => void;

const headerEnd = Buffer.from("\r\n\r\n");

export class HttpConnection {
  readonly #socket: net.Socket;
  #onAnswer: AnswerHandler | null = null;
  #onLost: (error: Error) => void;
  #pending: Buffer = Buffer.alloc(0);

  private constructor(socket: net.Socket, onLost: (error: Error) => void) {
    this.#socket = socket;
    this.#onLost = onLost;
    socket.on("data", (chunk) => this.#receive(chunk));
    socket.on("error", (error) => this.#onLost(error));
    socket.on("close", () => this.#onLost(new Error("connection closed by the server")));
  }

  static open(host: string, port: number, onLost: (error: Error) => void): Promise<HttpConnection> {
    return new Promise((resolve, reject) => {
      const socket = net.connect({ host, port, noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new HttpConnection(socket, onLost));
      });
    });
  }

  /** Sends a request; the connection must be idle. */
  send(head: Buffer, body: Buffer, onAnswer: AnswerHandler): void {
    this.#onAnswer = onAnswer;
    this.#socket.cork();
    this.#socket.write(head);
    this.#socket.write(body);
    this.#socket.uncork();
  }

  close(): void {
    this.#onLost = () => undefined;
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    const end = this.#pending.indexOf(headerEnd);
    if (end < 0) {
      return;
    }
    const head = this.#pending.toString("latin1", 0, end);
    const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#pending.length < end + 4 + length) {
      return;
    }
    this.#pending = this.#pending.subarray(end + 4 + length);
    const handler = this.#onAnswer;
    this.#onAnswer = null;
    handler?.(Number(head.slice(9, 12)));
  }
}
