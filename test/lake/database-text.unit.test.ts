/** What Postgres refuses is replaced, and nothing else. */
import { expect, it } from "vitest";

import { databaseJson } from "../../src/lake/database-text.js";

it.each([
  [String.raw`{"a":"b\\u0000"}`, String.raw`{"a":"b\\u0000"}`],
  [String.raw`{"a":"\u0000b\u0000"}`, String.raw`{"a":"\ufffdb\ufffd"}`],
  [String.raw`{"a":"\u0001\u001f\n\"\u00e4"}`, String.raw`{"a":"\u0001\u001f\n\"\u00e4"}`],
  [String.raw`{"a":"\ud83d\ude00"}`, String.raw`{"a":"\ud83d\ude00"}`],
  [String.raw`{"a":"\ud83d \ude00"}`, String.raw`{"a":"\ufffd \ufffd"}`],
  [String.raw`{"a":"\uD83D\uD83D\uDE00"}`, String.raw`{"a":"\ufffd\uD83D\uDE00"}`],
  [String.raw`{"a":"\ud83d\u0041"}`, String.raw`{"a":"\ufffd\u0041"}`],
  [String.raw`{"a":"\\\u0000"}`, String.raw`{"a":"\\\ufffd"}`],
])("%s", (json, expected) => {
  expect(databaseJson(json)).toBe(expected);
  expect(JSON.parse(databaseJson(json))).toEqual(JSON.parse(expected));
});
