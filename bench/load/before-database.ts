/** A server on loopback that stands between clients and a database. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A running one. */
export interface BeforeDatabase {
  /** The connection string given, with this server's address in it. */
  readonly connectionString: string;
  stop(): Promise<void>;
}

/** Starts one. @param pass has each side's bytes reach the other; when one side ends, so does the other */
export async function standBeforeDatabase(
  connectionString: string,
  pass: (client: Socket, database: Socket) => void,
): Promise<BeforeDatabase> {
  const url = new URL(connectionString);
  const { port, hostname } = url;
  const server = createServer((client) => {
    const database = connect(Number(port), hostname);
    pass(client, database);
    for (const [one, other] of [
      [client, database],
      [database, client],
    ] as const) {
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
    stop: async () => {
      server.close();
      await once(server, "close");
    },
  };
}
