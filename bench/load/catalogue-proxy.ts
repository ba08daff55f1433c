/** A proxy before Postgres that counts the executions of statements which name the lake's catalogue. */
import { type BeforeDatabase, standBeforeDatabase } from "./before-database.js";

/** A running proxy. */
export interface CatalogueProxy extends BeforeDatabase {
  /** Executions so far. */
  readonly statements: () => number;
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
  let statements = 0;
  const proxy = await standBeforeDatabase(connectionString, (client, database) => {
    const count = createCounter(() => {
      statements++;
    });
    client.on("data", (chunk) => {
      count(chunk);
      database.write(chunk);
    });
    database.pipe(client);
  });
  return { ...proxy, statements: () => statements };
}
