import { expect, test } from "vitest";

import { isConnectionError, sqlState } from "../../src/db/sql.js";
import { createTestDatabase } from "../helpers/postgres.js";

test("a fresh test database answers, and reports the state of a bad statement", async () => {
  const db = await createTestDatabase();
  try {
    const [row] = await db.sql<{ n: bigint }[]>`select ${2n ** 62n} as n`;
    expect(row?.n).toBe(2n ** 62n);
    const error: unknown = await db.sql`select nothing`.catch((e: unknown) => e);
    expect(sqlState(error)).toBe("42703");
    expect(isConnectionError(error)).toBe(false);
  } finally {
    await db.drop();
  }
});
