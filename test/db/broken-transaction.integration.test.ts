import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";

import { connect, isConnectionError, type Sql, type TransactionSql } from "../../src/db/sql.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { startTcpProxy } from "../helpers/auth/auth-tcp-proxy.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";

async function start(): Promise<{ sql: Sql; breakAll: () => Promise<void> }> {
  const db = await createTestDatabase({ migrate: false });
  onTestFinished(() => db.drop());
  const proxy = await startTcpProxy(db.connectionString);
  onTestFinished(() => proxy.stop());
  const sql = connect({
    connectionString: proxy.connectionString,
    maxConnections: 1,
    applicationName: "broken",
    logger: createSilentLogger(),
  });
  onTestFinished(() => sql.end({ timeout: 1 }));
  return {
    sql,
    breakAll: async () => {
      await proxy.refuse();
      await proxy.restore();
    },
  };
}

async function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => null,
    (error: unknown) => error,
  );
}

/** What breaks, and the state of the transaction then. */
const moments: Record<string, (transaction: TransactionSql, breakAll: () => Promise<void>) => Promise<unknown>> = {
  "while a statement is under way": async (transaction, breakAll) => {
    const running = transaction`select pg_sleep(1)`.execute();
    await sleep(50);
    await breakAll();
    return running;
  },
  "between two statements": async (transaction, breakAll) => {
    await transaction`select 1`;
    await breakAll();
    await sleep(20);
    return transaction`select ${"a"}::text`;
  },
  "before the commit": async (transaction, breakAll) => {
    await transaction`select 1`;
    await breakAll();
    await sleep(20);
  },
};

describe("a connection that breaks within a transaction", () => {
  for (const [moment, work] of Object.entries(moments)) {
    it(`${moment} rejects it, leaves the process alive and the pool usable`, async () => {
      const { sql, breakAll } = await start();
      await sql`select 1`;
      const error = await failure(sql.begin((transaction) => work(transaction, breakAll)));
      expect(isConnectionError(error)).toBe(true);
      // What the driver still had to write came due in the turns that follow.
      await sleep(50);
      const answer = await Promise.race([sql`select 2 as two`, sleep(10_000, "no answer")]);
      expect(answer).toEqual([{ two: 2 }]);
      await sql.begin((transaction) => transaction`select 3`);
    });
  }

  it("keeps what it still has to do from running outside of it, over the next connection", async () => {
    const { sql, breakAll } = await start();
    await sql`create table t (n int)`;
    let last: Promise<unknown> = Promise.resolve();
    let goOn: () => void = () => undefined;
    const reconnected = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const transaction = sql.begin(async (inner) => {
      await inner`insert into t values (1)`;
      await breakAll();
      last = reconnected.then(() => inner`insert into t values (2)`.execute());
      return last;
    });
    expect(isConnectionError(await failure(transaction))).toBe(true);
    expect(await sql`select * from t`).toEqual([]);
    goOn();
    expect(isConnectionError(await failure(last))).toBe(true);
    expect(await sql`select * from t`).toEqual([]);
  });
});
