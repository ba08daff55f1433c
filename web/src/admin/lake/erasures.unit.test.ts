import { describe, expect, it } from "vitest";

import { boundText, consequences, draftProblems, type ErasureDraft, requestOf, whereWords } from "./erasures.js";

const nowMs = Date.UTC(2026, 0, 31);
const draft: ErasureDraft = { audience: "a", kind: "service", key: "", value: "shop", begin: "", end: "" };

describe("a draft", () => {
  it.each<[Partial<ErasureDraft>, string]>([
    [{ audience: "" }, "audience must not be empty"],
    [{ audience: "a b" }, "audience must be letters"],
    [{ value: "" }, "service must not be empty"],
    [{ kind: "process" }, "process must be a UUID"],
    [{ kind: "trace" }, "trace must be 32 hexadecimal digits"],
    [{ kind: "attribute" }, "key must not be empty"],
    [{ kind: "attribute", key: "k", value: "x".repeat(8193) }, "value must be at most 8192 bytes"],
    [{ begin: "yesterday" }, "begin must be a time"],
    [{ begin: "2026-01-02", end: "2026-01-01" }, "end must be after the time at From"],
    [{ end: "now-1000x" }, "end must be a time"],
  ])("with %j says what is wrong", (changes, problem) => {
    expect(Object.values(draftProblems({ ...draft, ...changes }, nowMs)).join()).toContain(problem);
  });

  it("becomes a request with absolute times", () => {
    expect(draftProblems(draft, nowMs)).toEqual({});
    expect(draftProblems({ ...draft, kind: "attribute", key: "k", value: "" }, nowMs)).toEqual({});
    expect(requestOf(draft, nowMs)).toEqual({ audience: "a", where: { service: "shop" } });
    expect(
      requestOf({ ...draft, kind: "attribute", key: "user.id", value: "4711", begin: "now-30d", end: "now" }, nowMs),
    ).toEqual({
      audience: "a",
      where: { attribute: { key: "user.id", value: "4711" } },
      begin: "2026-01-01T00:00:00.000Z",
      end: "2026-01-31T00:00:00.000Z",
    });
  });
});

it("says what goes and what stays", () => {
  const all = consequences({ audience: "a", where: { service: "shop" } }).join(" ");
  expect(all).toContain("of the audience a of the service shop, whatever their time, are deleted");
  expect(all).toContain("Its processes are deleted as well");
  const some = consequences({ audience: "a", where: { trace: "ab" }, begin: "2026-01-01" }).join(" ");
  expect(some).toContain("Log records and spans of the audience a of the trace ab, with a time from 2026-01-01,");
  expect(some).not.toContain("processes");
  expect(whereWords({ attribute: { key: "k", value: "v" } })).toBe("the attribute k = v");
  expect(whereWords({ attribute: { key: "k", value: "" } })).toBe("the attribute k with an empty value");
  expect(boundText("1767225600000000001")).toBe("2026-01-01T00:00:00.000000001Z");
  expect(boundText("1767225600000000000")).toBe("2026-01-01T00:00:00Z");
  expect(boundText(null)).toBeNull();
});
