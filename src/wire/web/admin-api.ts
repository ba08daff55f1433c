/**
 * The admin routes of the web server as data: what each takes, who may call it and what it answers. The
 * router, the validation, the OpenAPI document and the tests all read this one table.
 */
import { asciiLower, emailPattern } from "../../runtime/text/identities.js";
import { uuidPattern } from "../../runtime/text/uuid.js";
import { appComponents, appOperations } from "./app-api.js";
import { lakeComponents, lakeOperations } from "./lake-api.js";
import {
  type Fields,
  type JsonSchema,
  oneOfField,
  optional,
  optionalInteger,
  queryBoolean,
  textField,
  type Values,
} from "./fields.js";
import {
  audience,
  audienceField,
  boolean,
  integer,
  nothing,
  object,
  operation,
  type Operation,
  orNull,
  page,
  pointInTime,
  responsesOf,
  string,
  strings,
  time,
  uuid,
} from "./operation.js";

const groupName = "[^\\s\\p{Cc}/](?:[^\\p{Cc}/]*[^\\s\\p{Cc}/])?";

/** Emails and key ids compare without regard to the case of ASCII letters: lower case is how they are stored. */
const lowerCase = (member: string): string => (/^(user|key):/.test(member) ? asciiLower(member) : member);

const grantMember = textField({
  description: "who is granted: user:<email>, group:<name>, * or, for read, key:<key_id>",
  maxBytes: 512,
  pattern: new RegExp(`^(?:\\*|user:${emailPattern}|group:${groupName}|key:${uuidPattern})$`, "u"),
  takes: "user:<email>, group:<name>, * or, for read, key:<key_id>",
  canonical: lowerCase,
});
const groupMember = textField({
  description: "who belongs to it: user:<email> or *",
  maxBytes: 512,
  pattern: new RegExp(`^(?:\\*|user:${emailPattern})$`, "u"),
  takes: "user:<email> or *",
  canonical: lowerCase,
});
const group = textField({
  description: "name of a group",
  pattern: new RegExp(`^(?!\\.{1,2}$)${groupName}$`, "u"),
  takes: "a name without slash, control characters or outer white space",
});
const keyName = textField({
  description: "what the key is for, 1 to 255 bytes in UTF-8",
  pattern: /\S/u,
  takes: "more than white space",
});
const kind = oneOfField(["read", "mint"], "what is granted");
// Not checked as a UUID: whatever it is, no key has it, and that is 404.
const keyId = textField({
  description: "key_id of a key (UUID); the list shows it",
  maxBytes: 4096,
});

const includeRevoked = queryBoolean(true, "whether revoked keys are listed");

const usage = object({
  requests: integer,
  bytes: integer,
  records: integer,
});
const keyRow = {
  key_id: uuid,
  name: string,
  created_at: time,
  created_by: string,
  last_used_at: orNull(time),
  revoked_at: orNull(time),
  revoked_by: orNull(string),
};
const mintedKey = { key_id: uuid, name: string, created_at: time, key: string };

/** The named schemas of the OpenAPI document. */
export const components = {
  Error: object({ code: string, message: string }),
  MintedIngestionKey: object({ ...mintedKey, audience: string, claimed: boolean }),
  MintedAnalyticsKey: object(mintedKey),
  IngestionKey: {
    ...object({ ...keyRow, audience: string, usage_24h: usage }),
    required: [...Object.keys(keyRow), "audience"],
  },
  AnalyticsKey: object(keyRow),
  Revoked: object({ revoked_at: time }),
  Grant: object({
    audience: string,
    kind: { type: "string", enum: ["read", "mint"] },
    member: string,
    created_at: time,
    created_by: string,
  }),
  MyAudiences: object({
    email: orNull(string),
    is_admin: boolean,
    admins_open: {
      type: "boolean",
      description:
        "true while the group admins holds *, which makes everybody an administrator; to end it, add the administrators and remove *",
    },
    read: strings,
    mint: strings,
    self_service: boolean,
  }),
  Group: object({ name: string, created_at: time, created_by: string }),
  GroupMember: object({ member: string, created_at: time, created_by: string }),
  AuditEntry: object({
    audit_id: integer,
    at: time,
    actor: string,
    action: string,
    target: string,
    details: { type: "object" },
  }),
  UsageRow: object({
    at: { ...time, description: "start of the hour or day, UTC" },
    key_id: uuid,
    name: string,
    audience: string,
    requests: integer,
    bytes: integer,
    records: integer,
  }),
  ...appComponents,
  ...lakeComponents,
} as const satisfies Readonly<Record<string, JsonSchema>>;

const { one, many } = responsesOf(components);

/** Every admin route. */
export const operations = {
  mintIngestionKey: operation("POST", "/api/ingestion-api-keys", {
    summary: "Mint an ingestion key, claiming a brand-new audience where the caller may",
    access: "caller",
    body: {
      name: keyName,
      audience: optional(audience),
      user_audience: optional(
        audienceField("instead of audience: suffix of an audience that begins with the caller's email local part"),
      ),
    },
    responses: { 201: one("the key, whose cleartext is shown only once", "MintedIngestionKey") },
    errors: ["FORBIDDEN", "CLAIM_CONTENDED"],
  }),
  listIngestionKeys: operation("GET", "/api/ingestion-api-keys", {
    summary: "List ingestion keys of every audience, newest first",
    access: "admin",
    query: {
      ...page,
      include_revoked: includeRevoked,
      include_usage: queryBoolean(false, "whether rows hold usage_24h, their use in the last day"),
      mine: queryBoolean(false, "only those that the caller minted"),
    },
    responses: { 200: many("the keys, without their cleartext", "IngestionKey") },
  }),
  revokeIngestionKey: operation("DELETE", "/api/ingestion-api-keys/{key_id}", {
    summary: "Revoke an ingestion key; revoking it again changes nothing",
    access: "admin",
    pathParameters: { key_id: keyId },
    responses: { 200: one("when it was revoked first", "Revoked") },
    errors: ["NOT_FOUND"],
  }),
  mintAnalyticsKey: operation("POST", "/api/analytics-api-keys", {
    summary: "Mint an analytics key; grant to key:<key_id> what it may read",
    access: "admin",
    body: { name: keyName },
    responses: { 201: one("the key, whose cleartext is shown only once", "MintedAnalyticsKey") },
  }),
  listAnalyticsKeys: operation("GET", "/api/analytics-api-keys", {
    summary: "List analytics keys, newest first",
    access: "admin",
    query: { ...page, include_revoked: includeRevoked },
    responses: { 200: many("the keys, without their cleartext", "AnalyticsKey") },
  }),
  revokeAnalyticsKey: operation("DELETE", "/api/analytics-api-keys/{key_id}", {
    summary: "Revoke an analytics key and delete its grants; revoking it again changes nothing",
    access: "admin",
    pathParameters: { key_id: keyId },
    responses: { 200: one("when it was revoked first", "Revoked") },
    errors: ["NOT_FOUND"],
  }),
  createGrant: operation("POST", "/api/audience-grants", {
    summary: "Grant reading or minting of an audience; groups and keys have to exist",
    access: "admin",
    body: { audience, kind, member: grantMember },
    responses: {
      200: one("the grant, which existed already", "Grant"),
      201: one("the grant", "Grant"),
    },
  }),
  listGrants: operation("GET", "/api/audience-grants", {
    summary: "List grants, newest first",
    access: "admin",
    query: {
      audience: optional(audience),
      kind: optional(kind),
      member: optional(grantMember),
      ...page,
    },
    responses: { 200: many("the grants", "Grant") },
  }),
  deleteGrant: operation("DELETE", "/api/audience-grants", {
    summary: "Delete a grant",
    access: "admin",
    query: { audience, kind, member: grantMember },
    responses: { 204: nothing("deleted") },
    errors: ["NOT_FOUND"],
  }),
  myAudiences: operation("GET", "/api/audience-grants/my-audiences", {
    summary: "What the caller may read and mint",
    access: "caller",
    responses: { 200: one("the caller's audiences", "MyAudiences") },
  }),
  createGroup: operation("POST", "/api/groups", {
    summary: "Create a group",
    access: "admin",
    body: { name: group },
    responses: {
      200: one("the group, which existed already", "Group"),
      201: one("the group", "Group"),
    },
  }),
  listGroups: operation("GET", "/api/groups", {
    summary: "List groups, newest first",
    access: "admin",
    query: page,
    responses: { 200: many("the groups", "Group") },
  }),
  deleteGroup: operation("DELETE", "/api/groups/{name}", {
    summary: "Delete a group, its members and its grants; never admins",
    access: "admin",
    pathParameters: { name: group },
    responses: { 204: nothing("deleted") },
    errors: ["NOT_FOUND", "CONFLICT"],
  }),
  addGroupMember: operation("POST", "/api/groups/{name}/members", {
    summary: "Add a member to a group",
    access: "admin",
    pathParameters: { name: group },
    body: { member: groupMember },
    responses: {
      200: one("the member, which existed already", "GroupMember"),
      201: one("the member", "GroupMember"),
    },
    errors: ["NOT_FOUND"],
  }),
  listGroupMembers: operation("GET", "/api/groups/{name}/members", {
    summary: "List the members of a group, newest first",
    access: "admin",
    pathParameters: { name: group },
    query: page,
    responses: { 200: many("the members", "GroupMember") },
    errors: ["NOT_FOUND"],
  }),
  removeGroupMember: operation("DELETE", "/api/groups/{name}/members", {
    summary: "Remove a member from a group; never the last one of admins",
    access: "admin",
    pathParameters: { name: group },
    query: { member: groupMember },
    responses: { 204: nothing("removed") },
    errors: ["NOT_FOUND", "CONFLICT"],
  }),
  listAudit: operation("GET", "/api/audit", {
    summary:
      "List changes of keys, grants, groups, data sources, maps, denials and retention, and erasures, newest first",
    access: "admin",
    query: {
      ...page,
      before: optionalInteger({
        min: 1,
        description:
          "entries before this audit_id: that of the last row leads to the next page, whatever is added meanwhile",
      }),
      action: optional(textField({ description: "of this action, such as key.mint" })),
      actor: optional(textField({ description: "of this email or subject" })),
      target: optional(textField({ description: "of changes of this key id, grant, group, ...", maxBytes: 1024 })),
    },
    responses: { 200: many("the entries", "AuditEntry") },
  }),
  listUsage: operation("GET", "/api/usage", {
    summary: "What ingestion keys were used for; of all keys to administrators, else of the caller's own",
    access: "caller",
    query: {
      key_id: optional(
        textField({ description: "of this key", pattern: new RegExp(`^${uuidPattern}$`, "u"), takes: "a UUID" }),
      ),
      audience: optional(audience),
      begin: optional(pointInTime("from this time on; unless given, a day before the end")),
      end: optional(pointInTime("before this time; unless given, now")),
      step: optional(
        oneOfField(
          ["hour", "day", "all"],
          "length of what a row sums up; unless given, hour; all: a row for each key, as of its last hour with use",
        ),
      ),
      mine: queryBoolean(false, "only of keys that the caller minted, also for administrators"),
    },
    responses: { 200: many("the use, oldest first", "UsageRow") },
  }),
  ...appOperations,
  ...lakeOperations,
  openApi: operation("GET", "/api/openapi.json", {
    summary: "This document",
    access: "public",
    responses: { 200: { description: "an OpenAPI 3.1 document", schema: { type: "object" } } },
  }),
} as const satisfies Readonly<Record<string, Operation>>;

/** Name of an admin route. */
export type OperationId = keyof typeof operations;

/** Operations that the front end answers, or has answered by an analytics server. */
export const frontOperations = [
  "query",
  "config",
  "openApi",
  "listDenials",
  "addDenial",
  "removeDenial",
  "testDenial",
  "getMap",
  "putMap",
  "deleteMap",
] as const satisfies readonly OperationId[];
/** One of these. */
export type FrontOperationId = (typeof frontOperations)[number];
/** Operations that ask the database alone. */
export type StoredOperationId = Exclude<OperationId, FrontOperationId>;

/** A request to `Id`, validated. */
export interface OperationInput<Id extends OperationId> {
  readonly path: Values<(typeof operations)[Id]["pathParameters"]>;
  readonly query: Values<(typeof operations)[Id]["query"]>;
  readonly body: (typeof operations)[Id]["body"] extends Fields ? Values<(typeof operations)[Id]["body"]> : null;
}

/** Paths that answer AUTH_DISABLED under `--disable-auth`, with everything that begins like them. */
export const authDisabledPrefixes = [
  "/api/ingestion-api-keys",
  "/api/analytics-api-keys",
  "/api/audience-grants",
  "/api/groups",
] as const;
