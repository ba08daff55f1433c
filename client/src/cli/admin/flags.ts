/** The flags of the administrative commands. */
import { type Values, flag, loginSettings, oneOf, shared, text, whole } from "../settings.js";

/** Flags of single actions; each action names those that it takes. */
export const actionFlags = {
  limit: whole("limit", {
    min: 1,
    fallback: null,
    help: "most rows to list; unset: 100. More than 500 are fetched page by page",
  }),
  all: flag("all", "lists every row, however many there are"),
  offset: whole("offset", { min: 0, fallback: null, help: "newest rows to skip" }),
  live: flag("live", "leaves revoked keys out"),
  name: text("name", { placeholder: "name", takes: "1 to 255 bytes", fallback: null, help: "what the new key is for" }),
  audience: text("audience", {
    placeholder: "audience",
    fallback: null,
    help: "write audience of the new key, or the audience whose grants or use are listed, or whose rows are meant",
  }),
  userAudience: text("user-audience", {
    placeholder: "suffix",
    fallback: null,
    help: "instead of --audience: the server prepends the part of your email before the @",
  }),
  kind: oneOf("kind", ["read", "mint"], { fallback: null, help: "lists grants of this kind only" }),
  member: text("member", {
    placeholder: "member",
    takes: "user:<email>, group:<name>, key:<key_id> or *",
    fallback: null,
    help: "lists grants of this member only",
  }),
  keyId: text("key-id", { placeholder: "key_id", fallback: null, help: "use of this key only" }),
  begin: text("begin", {
    placeholder: "time",
    fallback: null,
    help: "start: 2026-11-21T10:00:00Z, 2026-11-21, -7d; unset: for usage a day before the end, else none",
  }),
  end: text("end", {
    placeholder: "time",
    fallback: null,
    help: "end (excluded), written like --begin; unset: for usage now, else none",
  }),
  step: oneOf("step", ["hour", "day", "all"], { fallback: null, help: "length of what a row sums up; unset: hour" }),
  action: text("action", { placeholder: "action", fallback: null, help: "entries of this action only: key.mint" }),
  actor: text("actor", { placeholder: "email", fallback: null, help: "entries of this person only" }),
  target: text("target", {
    placeholder: "target",
    fallback: null,
    help: "entries about this key_id, audience, group, ... only, as the column target has it",
  }),
  where: text("where", {
    placeholder: "condition",
    fallback: null,
    help: "service=<name>, process=<process_id>, trace=<trace_id> or attribute <key>=<value>",
  }),
  repair: flag("repair", "removes orphans, and takes what cannot be read out of the catalogue"),
  deep: flag("deep", "reads every value, not only footers"),
  detach: flag("detach", "does not wait for the end"),
} as const;

/** Which identity token is sent, and where: for everything that asks the web server. */
export const webSettings = {
  tokenFile: text("token-file", {
    placeholder: "path",
    takes: "a path",
    fallback: null,
    help: "file of mode 0600 with the identity token: a login's, or the value of the cookie id_token alone; unset: ~/.telemetry/tokens.json, or tokens-<profile>.json there",
  }),
  webUrl: shared.webUrl,
  ...loginSettings,
} as const;

/** Flags of every action. */
export const commonFlags = { json: shared.json, ...webSettings } as const;

/** Name of a flag of single actions. */
export type ActionFlag = keyof typeof actionFlags;

/** Values of the flags of single actions. */
export type ActionValues = Values<typeof actionFlags>;
