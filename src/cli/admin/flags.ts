/** The flags of `telemetry keys`, `grants`, `groups` and `audit`. */
import { bool, int, oneOf, text } from "../../runtime/config/kinds.js";
import { options } from "../../runtime/config/options.js";
import { type OptionValues, row } from "../../runtime/config/table.js";

/** Flags of single actions; each action names those that it takes. */
export const actionFlags = {
  limit: row({
    kind: int(1, Number.MAX_SAFE_INTEGER),
    default: null,
    roles: ["cli"],
    help: "Most rows to list; unset: 100. More than 500 are fetched page by page.",
  }),
  all: row({
    kind: bool(),
    default: false,
    roles: ["cli"],
    help: "Lists every row, however many there are.",
  }),
  offset: row({
    kind: int(0, Number.MAX_SAFE_INTEGER),
    default: null,
    roles: ["cli"],
    help: "Newest rows to skip.",
  }),
  live: row({
    kind: bool(),
    default: false,
    roles: ["cli"],
    help: "Leaves revoked keys out.",
  }),
  name: row({
    kind: text({ takes: "1 to 255 bytes", placeholder: "name" }),
    default: null,
    roles: ["cli"],
    help: "What the new key is for.",
  }),
  audience: row({
    kind: text({ placeholder: "audience" }),
    default: null,
    roles: ["cli"],
    help: "Write audience of the new key, or the audience whose grants are listed.",
  }),
  "user-audience": row({
    kind: text({ placeholder: "suffix" }),
    default: null,
    roles: ["cli"],
    help: "Instead of --audience: the server prepends the part of your email before the @.",
  }),
  kind: row({
    kind: oneOf("read", "mint"),
    default: null,
    roles: ["cli"],
    help: "Lists grants of this kind only.",
  }),
  member: row({
    kind: text({ takes: "user:<email>, group:<name>, key:<key_id> or *", placeholder: "member" }),
    default: null,
    roles: ["cli"],
    help: "Lists grants of this member only.",
  }),
} as const;

/** Flags of every action. */
export const commonFlags = {
  json: row({
    kind: bool(),
    default: false,
    roles: ["cli"],
    help: "Prints the server's JSON instead of a table.",
  }),
  "token-file": row({
    kind: text({ takes: "a path", placeholder: "path" }),
    default: null,
    roles: ["cli"],
    help: "File with the identity token, readable by its owner only: the client's JSON, or the value of the cookie id_token alone; unset: ~/.telemetry/tokens.json, or tokens-<profile>.json there.",
  }),
  SVC_WEB_URL: options.SVC_WEB_URL,
  SVC_PROFILE: options.SVC_PROFILE,
} as const;

/** Name of a flag of single actions. */
export type ActionFlag = keyof typeof actionFlags;

/** Values of the flags of single actions. */
export type ActionValues = OptionValues<typeof actionFlags>;
