/** A database whose connections are no sessions: a small pooler of transactions stands for PgBouncer. */
import type { Socket } from "node:net";

import { afterAll, beforeAll, expect, test } from "vitest";

import { standBeforeDatabase } from "../../bench/load/before-database.js";
import { assertSessions } from "../../src/db/sessions.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { startTestAnalytics } from "../helpers/servers/analytics.js";

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
});
afterAll(() => db.drop());

/** The end of an answer: ready, and in no transaction. */
const idle = Buffer.from("5a0000000549", "hex");
const terminate = 0x58;

/** Once they have logged in, all clients share the session of the first, one transaction after the other. */
function poolTransactions(): (client: Socket, database: Socket) => void {
  let session: Socket | null = null;
  let owner: Socket | null = null;
  let waiting: { readonly client: Socket; readonly bytes: Buffer }[] = [];
  const pump = (): void => {
    owner ??= waiting[0]?.client ?? null;
    for (const { bytes } of waiting.filter(({ client }) => client === owner)) {
      session?.write(bytes);
    }
    waiting = waiting.filter(({ client }) => client !== owner);
  };
  return (client, database) => {
    let ready = false;
    client.on("data", (bytes) => {
      if (!ready) {
        database.write(bytes);
      } else if (bytes[0] !== terminate) {
        waiting.push({ client, bytes });
        pump();
      }
    });
    database.on("data", (bytes) => {
      const ends = bytes.subarray(-idle.length).equals(idle);
      if (!ready) {
        client.write(bytes);
        ready = ends;
        session ??= ready ? database : null;
      } else if (database === session) {
        owner?.write(bytes);
        owner = ends ? null : owner;
        pump();
      }
    });
  };
}

const options = (connectionString: string) => ({
  connectionString,
  applicationName: "test",
  logger: createTappedLogger(),
});

test("a direct connection passes", async () => {
  await expect(assertSessions(options(db.connectionString))).resolves.toBeUndefined();
});

test("a pooler that keeps sessions passes", async () => {
  const pooler = await standBeforeDatabase(db.connectionString, (client, database) => {
    client.pipe(database).pipe(client);
  });
  await expect(assertSessions(options(pooler.connectionString))).resolves.toBeUndefined();
  await pooler.stop();
});

test("a pooler of transactions is refused", async () => {
  const pooler = await standBeforeDatabase(db.connectionString, poolTransactions());
  await expect(assertSessions(options(pooler.connectionString))).rejects.toMatchObject({
    code: "NOT_CONFIGURED",
    message: expect.stringMatching(/gives each transaction another session .* pool_mode = session/) as string,
  });
  await pooler.stop();
});

test("a server does not start over one", async () => {
  await expect(
    startTestAnalytics({}, async (direct) => (await standBeforeDatabase(direct, poolTransactions())).connectionString),
  ).rejects.toThrow("names a pooler that gives each transaction another session");
});
