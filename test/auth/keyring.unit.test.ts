/** The keyring of a server without a database, and the option that holds it. */
import { expect, it } from "vitest";

import { createKeyring } from "../../src/auth/keyring.js";
import { parseCommandLine, parseConfig } from "../../src/runtime/config/parse.js";

const keys = [
  { name: "flight-1", key: "a".repeat(32) },
  { name: "flight-2", key: "b".repeat(32) },
];

it("tells who holds a key", () => {
  const keyring = createKeyring(keys);
  expect(keyring.holderOf(`Bearer ${"a".repeat(32)}`)).toBe("flight-1");
  expect(keyring.holderOf(`bearer   ${"b".repeat(32)}`)).toBe("flight-2");
});

it.each([
  "",
  "Bearer",
  "Bearer ",
  `Basic ${"a".repeat(32)}`,
  "a".repeat(32),
  "Bearer a",
  `Bearer ${"a".repeat(33)}`,
  ",",
])("knows nobody by %s", (authorization) => {
  expect(createKeyring(keys).holderOf(authorization)).toBeNull();
});

const configured = (text: string): unknown => parseConfig("object-cache", [], { SVC_API_KEYS: text }).apiKeys;

it("is read from SVC_API_KEYS", () => {
  expect(configured("")).toBeNull();
  expect(configured(JSON.stringify(keys))).toEqual(keys);
});

it.each([
  ["[]", "at least one entry"],
  ["{}", "must be an array"],
  ["[1]", "entry 0 must be an object"],
  ['[{"name": "a"}]', "entry 0.key must be"],
  ['[{"name": "", "key": "hunter-hunter-2"}]', "entry 0.name must be"],
  ['[{"name": "a", "key": "hunter hunter 2"}]', "entry 0.key must be"],
  ['[{"name": "a", "key": "hunter-hunter-2", "role": "x"}]', "there is no field role"],
  [
    '[{"name": "a", "key": "hunter-hunter-2"}, {"name": "a", "key": "x"}]',
    "entry 1 has the name or the key of another",
  ],
  [
    '[{"name": "a", "key": "hunter-hunter-2"}, {"name": "b", "key": "hunter-hunter-2"}]',
    "entry 1 has the name or the key",
  ],
])("refuses %s without saying a key", (text, sentence) => {
  const failure = (() => {
    try {
      return String(configured(text));
    } catch (error) {
      return String(error);
    }
  })();
  expect(failure).toContain(sentence);
  expect(failure).not.toContain("hunter");
});

it("is read by no other server, which says so", () => {
  const warningsOf = (role: "analytics" | "object-cache" | "monolith"): readonly string[] => {
    const program = { name: "x", version: "0", summary: "" };
    const line = parseCommandLine(role, program, [], { SVC_API_KEYS: JSON.stringify(keys) });
    return line.kind === "run" ? line.warnings : [];
  };
  const warning = "SVC_API_KEYS is set but not read: keys live in the database";
  expect([warningsOf("analytics"), warningsOf("monolith"), warningsOf("object-cache")]).toEqual([
    [warning],
    [warning],
    [],
  ]);
});
