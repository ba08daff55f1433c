/** A wire between a client and a database that breaks when something certain passes. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";

/** A running wire. */
export interface Wire {
  /** The connection string given, with the wire's address in it. */
  readonly connectionString: string;
  /** Whether it has broken. */
  readonly broken: boolean;
  stop(): Promise<void>;
}

/** Starts one that resets the connection, once, in place of passing on bytes of one side that hold a text. */
export async function startWire(connectionString: string, from: "client" | "database", text: string): Promise<Wire> {
  const url = new URL(connectionString);
  const { port, hostname } = url;
  let broken = false;
  const server = createServer((client) => {
    const database = connect(Number(port), hostname);
    for (const [side, one, other] of [
      ["client", client, database],
      ["database", database, client],
    ] as const) {
      one.on("data", (bytes) => {
        if (!broken && side === from && bytes.includes(text)) {
          broken = true;
          client.resetAndDestroy();
        } else {
          other.write(bytes);
        }
      });
      one.on("error", () => other.destroy());
      one.on("close", () => other.destroy());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);
  return {
    connectionString: url.href,
    get broken() {
      return broken;
    },
    stop: async () => {
      server.close();
      await once(server, "close");
    },
  };
}
