/** The everyday questions of docs/questions.md, asked about a small shop whose answers a second implementation works out. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { overEightDays, parseQuestions, readQuestions } from "../../bench/shop/questions.js";
import type { Shop } from "../../bench/shop/shop.js";
import { adminFunctions } from "../../src/query/sql/admin-functions.js";
import { type FlightQuery, plainRows } from "../helpers/flight/plain-rows.js";
import type { AnswerRow } from "../helpers/query/shop-answer.js";
import { readSqlGuide } from "../helpers/query/sql-guide.js";
import { shopAnswers } from "../helpers/query/shop-answers.js";
import { modelOf, type ShopModel, shopNs } from "../helpers/query/shop-model.js";
import { atTheEnd, type ShopServer, startShopServer } from "../helpers/query/shop-server.js";
import { until } from "../helpers/until.js";
import { noon } from "../helpers/noon.js";

const questions = await readQuestions();

/** Ends at a full hour, 2025-11-21T12:00:00Z. */
const shop: Shop = {
  seed: 1,
  spans: 15_000,
  logs: 15_000,
  // More than one an hour of each series.
  points: 130_000,
  bigSpans: 300,
  beginNs: noon - BigInt(shopNs),
};

let server: ShopServer;
let query: FlightQuery;
let model: ShopModel;

beforeAll(async () => {
  server = await startShopServer(shop, 2);
  const { address, key } = server;
  const port = Number(address.split(":")[1]);
  query = (sql) => plainRows({ port, key }, sql);
  model = modelOf(shop);
  // Servers count use, and write it down from time to time.
  const { length: points } = model.series.flatMap((series) => series.points);
  const sent = model.spans.length + model.logs.length + points;
  await until(async () => (await query("SELECT sum(records) AS records FROM usage"))[0]?.["records"] === sent);
});

afterAll(() => server.stop());

/** Numbers to ten digits, and milliseconds since 1970 to a hundredth. */
function rounded(value: unknown): unknown {
  if (typeof value !== "number") {
    return value;
  }
  return value > 1e12 ? Math.round(value * 100) / 100 : Number(value.toPrecision(10));
}

function keyOf(row: Readonly<Record<string, unknown>>, keys: readonly string[]): string {
  return JSON.stringify(keys.map((key) => rounded(row[key])));
}

describe("the everyday questions", () => {
  it("are 25 of at most 200 characters each", () => {
    expect(questions.map(({ number }) => number)).toEqual(Array.from({ length: 25 }, (_, i) => i + 1));
    expect(questions.filter(({ sql }) => sql.length > 200)).toEqual([]);
  });

  it("are read out of a text", () => {
    const text = "**1. What?**\n\n```sql\nSELECT 1\n```\n\nMore.\n\n**2. Who?** They.\n\n```sql\nSELECT\n2\n```\n";
    expect(parseQuestions(text)).toEqual([
      { number: 1, words: "What?", sql: "SELECT 1" },
      { number: 2, words: "Who?", sql: "SELECT\n2" },
    ]);
    expect(overEightDays("ago('1 hour') OR ago('2 hours') OR ago('30 minutes')")).toBe(
      "ago('8 days') OR ago('8 days') OR ago('30 minutes')",
    );
  });

  it.each(questions.map(({ number, words, sql }) => [`${number}. ${words}`, number, sql] as const))(
    "%s",
    async (_, number, sql) => {
      const answer = shopAnswers[number]?.(model);
      if (answer === undefined) {
        throw new Error(`nobody has worked out the answer to question ${number}`);
      }
      const { keys, order, rows: expected } = answer;
      const found = await query(atTheEnd(overEightDays(sql), shop));
      expect(expected.length).toBeGreaterThan(0);
      const [column, direction] = order ?? ["", 0];
      const values = found.map((row) => Number(row[column]) * direction);
      expect(values).toEqual(values.toSorted((a, b) => a - b));
      const byKey = new Map(found.map((row) => [keyOf(row, keys), row]));
      expect([...byKey.keys()].toSorted()).toEqual(expected.map((row) => keyOf(row, keys)).toSorted());
      expect(found.length).toBe(expected.length);
      for (const row of expected) {
        const other = byKey.get(keyOf(row, keys)) ?? {};
        expect(Object.keys(other)).toEqual(Object.keys(row));
        expect(compared(other, row)).toEqual(compared(row, row));
      }
    },
  );
});

it("runs every other example of the guide that changes nothing", async () => {
  const text = await readSqlGuide();
  const changing = Object.keys(adminFunctions).filter((name) => !name.startsWith("list_"));
  const others = [...text.matchAll(/^```sql\n([\s\S]*?)^```$/gmu)]
    .map(([, sql = ""]) => sql)
    .filter((sql) => !questions.some((question) => question.sql === sql.trim()))
    .filter((sql) => !changing.some((name) => sql.includes(`${name}(`)));
  expect(others.length).toBeGreaterThan(15);
  for (const sql of others) {
    await query(sql);
  }
});

/** A row as it is compared: what a function accepts is `true`. */
function compared(row: Readonly<Record<string, unknown>>, like: AnswerRow): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(like).map(([column, value]) => [
      column,
      typeof value === "function"
        ? row === like || value(row[column]) || `not ${String(row[column])}`
        : rounded(row[column]),
    ]),
  );
}
