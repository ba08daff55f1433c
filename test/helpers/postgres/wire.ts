/** A wire between a client and a database that breaks when something certain passes. */
import { type BeforeDatabase, standBeforeDatabase } from "../../../bench/load/before-database.js";

/** A running wire. */
interface Wire extends BeforeDatabase {
  /** Whether it has broken. */
  readonly broken: () => boolean;
}

/** Starts one that resets the connection, once, in place of passing on bytes of one side that hold a text. */
export async function startWire(connectionString: string, from: "client" | "database", text: string): Promise<Wire> {
  let broken = false;
  const wire = await standBeforeDatabase(connectionString, (client, database) => {
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
    }
  });
  return { ...wire, broken: () => broken };
}
