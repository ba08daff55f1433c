/** As HttpConnection, with calls of gRPC over HTTP/2: one connection with one call at a time. */
import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from "node:http2";

import type { AnswerHandler } from "./http-connection.js";

const prefixBytes = 5;

/** One connection. */
export class GrpcConnection {
  readonly #session: ClientHttp2Session;
  #onLost: (error: Error) => void;

  private constructor(session: ClientHttp2Session, onLost: (error: Error) => void) {
    this.#session = session;
    this.#onLost = onLost;
    session.on("error", (error) => this.#onLost(error));
    session.on("close", () => this.#onLost(new Error("connection closed by the server")));
  }

  static open(host: string, port: number, onLost: (error: Error) => void): Promise<GrpcConnection> {
    return new Promise((resolve, reject) => {
      const session = connect(`http://${host}:${port}`);
      session.once("error", reject);
      session.once("remoteSettings", () => {
        session.off("error", reject);
        resolve(new GrpcConnection(session, onLost));
      });
    });
  }

  /** Makes a call; its status counts as 200, or as the number of gRPC. */
  send(head: OutgoingHttpHeaders, message: Buffer, onAnswer: AnswerHandler): void {
    const stream = this.#session.request(head, { endStream: false });
    let status = "";
    stream.on("response", (fields) => (status = String(fields["grpc-status"] ?? status)));
    stream.on("trailers", (fields: Record<string, unknown>) => (status = String(fields["grpc-status"])));
    stream.on("data", () => undefined);
    stream.once("close", () => {
      onAnswer(status === "0" ? 200 : Number(status));
    });
    const prefix = Buffer.alloc(prefixBytes);
    prefix.writeUInt32BE(message.length, 1);
    stream.end(Buffer.concat([prefix, message]));
  }

  close(): void {
    this.#onLost = () => undefined;
    this.#session.destroy();
  }
}
