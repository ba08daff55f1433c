/** HTTP/1.1 by hand, for requests that no client library would send. */
import net from "node:net";

import { recordOutput } from "../cleartext/cleartext-tap.js";

/** A response as it came over the socket. */
interface RawResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** What a raw exchange ended with. */
interface RawExchange {
  /** In order; a `100 Continue` counts as one. */
  readonly responses: readonly RawResponse[];
  /** Whether the server closed the connection. */
  readonly closed: boolean;
}

/** A connection that sends what it is told and keeps what it gets. */
export class RawConnection {
  readonly #socket: net.Socket;
  #received = Buffer.alloc(0);
  #closed = false;
  #wake: (() => void)[] = [];
  /** How many of the first responses answer HEAD. */
  readonly #heads: number;

  private constructor(socket: net.Socket, heads: number) {
    this.#socket = socket;
    this.#heads = heads;
    socket.on("data", (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#notify();
    });
    // A reset after the answer is one way of closing.
    socket.on("error", () => undefined);
    socket.on("close", () => {
      // What pads a last answer is white space, kilobytes of it.
      recordOutput("response", this.#received.toString("latin1").trimEnd());
      this.#closed = true;
      this.#notify();
    });
  }

  /** @param heads how many of the first requests are HEAD, whose responses have no body. */
  static async open(port: number, heads = 0): Promise<RawConnection> {
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
    const connection = new RawConnection(socket, heads);
    await new Promise((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return connection;
  }

  send(data: string | Buffer): void {
    if (!this.#socket.destroyed) {
      this.#socket.write(data);
    }
  }

  /** Says that nothing more will be sent. */
  finish(): void {
    this.#socket.end();
  }

  /** Every byte so far. */
  get received(): Buffer {
    return this.#received;
  }

  get closed(): boolean {
    return this.#closed;
  }

  get responses(): readonly RawResponse[] {
    return parseResponses(this.#received, this.#heads);
  }

  /** Waits for `count` final responses or for the end of the connection. */
  async settle(count = 1): Promise<RawExchange> {
    while (!this.#closed && this.responses.filter((r) => r.status !== 100).length < count) {
      await this.changed();
    }
    return { responses: this.responses, closed: this.#closed };
  }

  /** Resolves when something arrives or the connection ends. */
  changed(): Promise<void> {
    if (this.#closed) {
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      this.#wake.push(resolve);
    });
  }

  /** Waits until the server has closed the connection. */
  async ended(): Promise<RawExchange> {
    while (!this.#closed) {
      await this.changed();
    }
    return { responses: this.responses, closed: true };
  }

  /** Cuts the connection with a reset. */
  cut(): void {
    this.#socket.resetAndDestroy();
  }

  close(): void {
    this.#socket.destroy();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = [];
    for (const resume of wake) {
      resume();
    }
  }
}

/** Sends one request and returns its final response and whether the connection was closed within `lingerMs`. */
export async function rawRequest(
  port: number,
  parts: readonly (string | Buffer)[],
  lingerMs = 50,
): Promise<RawExchange> {
  const connection = await RawConnection.open(port);
  for (const part of parts) {
    connection.send(part);
  }
  await connection.settle();
  for (let waited = 0; waited < lingerMs && !connection.closed; waited += 10) {
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
  const exchange = { responses: connection.responses, closed: connection.closed };
  connection.close();
  return exchange;
}

function parseResponses(received: Buffer, heads: number): RawResponse[] {
  const responses: RawResponse[] = [];
  let rest = received;
  for (;;) {
    const end = rest.indexOf("\r\n\r\n");
    if (end === -1) {
      return responses;
    }
    const [statusLine = "", ...lines] = rest.subarray(0, end).toString("latin1").split("\r\n");
    const headers: Record<string, string> = {};
    for (const line of lines) {
      const colon = line.indexOf(":");
      headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
    }
    const status = Number(statusLine.split(" ")[1]);
    const announced = headers["content-length"];
    // Without a length the body reaches to the next response (uWebSockets.js' own error pages).
    const next = rest.indexOf("HTTP/1.1 ", end);
    const bodiless = status === 100 || status === 204 || responses.length < heads;
    const open = (next === -1 ? rest.length : next) - end - 4;
    const length = bodiless ? 0 : announced === undefined ? open : Number(announced);
    if (rest.length < end + 4 + length) {
      return responses;
    }
    responses.push({
      status,
      headers,
      body: Buffer.from(rest.subarray(end + 4, end + 4 + length)),
    });
    rest = rest.subarray(end + 4 + length);
  }
}
