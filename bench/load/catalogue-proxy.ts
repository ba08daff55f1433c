/** A proxy before Postgres that counts the executions of statements which name the lake's catalogue. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";

/** A running proxy. */
export interface CatalogueProxy {
  /** The connection string given, with the proxy's address in it. */
  readonly connectionString: string;
  /** Executions so far. */
  readonly statements: () => number;
  stop(): Promise<void>;
}

/** Messages of a client (PostgreSQL, "Message Formats") are looked at as they pass. */
function createCounter(onStatement: () => void): (chunk: Buffer) => void {
  const texts = new Map<string, string>();
  let rest = Buffer.alloc(0);
  let started = false;
  const textAt = (message: Buffer, at: number): string => message.toString("utf8", at, message.indexOf(0, at));
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const head = started ? 1 : 0;
      if (rest.length < head + 4) {
        return;
      }
      const length = head + rest.readUInt32BE(head);
      if (rest.length < length) {
        return;
      }
      const message = rest.subarray(0, length);
      rest = rest.subarray(length);
      if (!started) {
        started = true;
        continue;
      }
      const kind = String.fromCharCode(message[0] ?? 0);
      const first = message.subarray(5);
      if (kind === "P") {
        const name = textAt(first, 0);
        texts.set(name, textAt(first, Buffer.byteLength(name) + 1));
      } else if (kind === "B") {
        const portal = textAt(first, 0);
        const name = textAt(first, Buffer.byteLength(portal) + 1);
        if (texts.get(name)?.includes("lakehouse_partitions") === true) {
          onStatement();
        }
      } else if (kind === "Q" && textAt(first, 0).includes("lakehouse_partitions")) {
        onStatement();
      }
    }
  };
}

/** Starts one. */
export async function startCatalogueProxy(connectionString: string): Promise<CatalogueProxy> {
  const url = new URL(connectionString);
  const { port, hostname } = url;
  let statements = 0;
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    const count = createCounter(() => {
      statements++;
    });
    near.on("data", (chunk) => {
      count(chunk);
      far.write(chunk);
    });
    far.pipe(near);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);
  return {
    connectionString: url.href,
    statements: () => statements,
    stop: async () => {
      server.close();
      await once(server, "close");
    },
  };
}
