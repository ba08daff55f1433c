/** The rules of texts, as the server has them and in its sentences, so that a form says at once what it would say. */
import { ApiError } from "../api/error.js";

interface TextRule {
  /** In UTF-8; 255 unless given. */
  readonly maxBytes?: number;
  readonly pattern?: RegExp;
  /** Words the pattern. */
  readonly takes?: string;
}

const audienceTakes = "letters, digits, _ and - only (^[A-Za-z0-9_-]+$), at most 255 of them";
const email = String.raw`[^\s@]+@[^\s@]+`;
const groupName = String.raw`[^\s\p{Cc}/](?:[^\p{Cc}/]*[^\s\p{Cc}/])?`;
const uuid = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";

export const textRules = {
  keyName: { pattern: /\S/u, takes: "more than white space" },
  audience: { pattern: /^[A-Za-z0-9_-]+$/, takes: audienceTakes },
  grantMember: {
    maxBytes: 512,
    pattern: new RegExp(`^(?:\\*|user:${email}|group:${groupName}|key:${uuid})$`, "u"),
    takes: "user:<email>, group:<name>, * or, for read, key:<key_id>",
  },
  groupMember: {
    maxBytes: 512,
    pattern: new RegExp(`^(?:\\*|user:${email})$`, "u"),
    takes: "user:<email> or *",
  },
  group: {
    pattern: new RegExp(`^(?!\\.{1,2}$)${groupName}$`, "u"),
    takes: "a name without slash, control characters or outer white space",
  },
  service: { maxBytes: 1024 },
  process: { pattern: new RegExp(`^${uuid}$`, "u"), takes: "a UUID" },
  trace: { pattern: /^[0-9a-f]{32}$/iu, takes: "32 hexadecimal digits" },
  attributeKey: { maxBytes: 1024 },
  attributeValue: { maxBytes: 8192 },
  expression: { maxBytes: 40_000 },
  reason: { maxBytes: 4000 },
  sql: { maxBytes: 1_000_000 },
  dataSource: {
    pattern: /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/,
    takes: "1 to 63 letters, digits, _ or -, the first a letter or digit",
  },
  uri: {},
  mapFile: {
    maxBytes: 100,
    pattern: /^[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\.glb$/,
    takes: "letters, digits, _, - and single dots, and end in .glb",
  },
} as const satisfies Readonly<Record<string, TextRule>>;

/** What is wrong with a text, or null. @param name of the field, as the server names it. */
export function textProblem(name: string, value: string, rule: TextRule): string | null {
  const maxBytes = rule.maxBytes ?? 255;
  if (value === "") {
    return `${name} must not be empty`;
  }
  if (new TextEncoder().encode(value).length > maxBytes) {
    return `${name} must be at most ${maxBytes} bytes in UTF-8`;
  }
  if (rule.pattern !== undefined && !rule.pattern.test(value)) {
    return `${name} must be ${rule.takes ?? "another text"}`;
  }
  return null;
}

/** What the server says of one field, or null: its sentences about fields begin with their names. */
export function fieldProblem(error: unknown, name: string): string | null {
  return error instanceof ApiError && error.code === "BAD_REQUEST" && new RegExp(`^${name}\\b`).test(error.message)
    ? error.message
    : null;
}

/** Such a sentence as it stands at its field: the label there has another name than the server. */
export function atField(problem: string | null): string | null {
  return problem?.replace(/^[a-z_]+ must /, "Must ") ?? null;
}
