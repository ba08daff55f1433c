import { expect, it } from "vitest";

import { ApiError } from "../api/error.js";
import { atField, fieldProblem, textProblem, textRules } from "./rules.js";

it("counts bytes in UTF-8, not characters", () => {
  expect(textProblem("name", "ä".repeat(127), textRules.keyName)).toBeNull();
  expect(textProblem("name", "ä".repeat(128), textRules.keyName)).toBe("name must be at most 255 bytes in UTF-8");
  expect(textProblem("name", " \t ", textRules.keyName)).toBe("name must be more than white space");
  expect(textProblem("name", "", textRules.keyName)).toBe("name must not be empty");
});

it.each(["*", "user:a@example.com", "group:team a", "key:01234567-89ab-cdef-0123-456789abcdef"])(
  "takes the member %s",
  (member) => expect(textProblem("member", member, textRules.grantMember)).toBeNull(),
);

it.each(["a@example.com", "user:", "group:", "group:a/b", "key:1", "**", "user:a@example.com "])(
  "refuses the member %s",
  (member) => expect(textProblem("member", member, textRules.grantMember)).toMatch(/^member must be user:/),
);

it("puts a sentence of the server at its field alone", () => {
  const error = new ApiError({ status: 400, code: "BAD_REQUEST", message: "name must be a string", requestId: null });
  expect(fieldProblem(error, "name")).toBe("name must be a string");
  expect(fieldProblem(error, "audience")).toBeNull();
  expect(fieldProblem(new Error("name"), "name")).toBeNull();
});

it("says at a field what the label does not say already", () => {
  expect(atField("match_expr must not be empty")).toBe("Must not be empty");
  expect(atField("match_expr is no expression")).toBe("match_expr is no expression");
  expect(atField(null)).toBeNull();
});
