/**
 * The admin routes of the web server as data: what each takes, who may call it and what it answers. The
 * router, the validation, the OpenAPI document and the tests all read this one table.
 */
import type { ErrorCode } from "../../runtime/errors.js";
import { asciiLower, emailPattern } from "../../runtime/text/identities.js";
import { uuidPattern } from "../../runtime/text/uuid.js";
import {
  type Field,
  type Fields,
  integerField,
  type JsonSchema,
  oneOfField,
  optional,
  queryBoolean,
  queryInteger,
  scalarsField,
  textField,
  type Values,
} from "./fields.js";
import { arrowStreamType, framesType } from "./query-frames.js";

/** Answer of an operation: a named schema of {@link components}, or null for no body. */
export interface OperationResponse {
  readonly description: string;
  readonly schema: JsonSchema | null;
  /** Media types of the body; by default JSON. */
  readonly types?: readonly string[];
}

/** One admin route. */
export interface Operation {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the base path; `{name}` is one segment. */
  readonly path: string;
  readonly summary: string;
  /** `public`: anybody, no cookie; `caller`: anybody logged in; `admin`: members of `admins`. */
  readonly access: "public" | "caller" | "admin";
  readonly pathParameters: Fields;
  readonly query: Fields;
  /** Null for a route that takes no body. */
  readonly body: Fields | null;
  readonly responses: Readonly<Record<number, OperationResponse>>;
  /** Errors beside those that every route of its access can answer. */
  readonly errors: readonly ErrorCode[];
}

/** Characters and length of audiences. */
const audienceTakes = "letters, digits, _ and - only (^[A-Za-z0-9_-]+$), at most 255 of them";
const groupName = "[^\\s/](?:[^\\p{Cc}/]*[^\\s/])?";

/** Emails and key ids compare without regard to the case of ASCII letters: lower case is how they are stored. */
const lowerCase = (member: string): string => (/^(user|key):/.test(member) ? asciiLower(member) : member);

const audience = textField({
  description: "an audience",
  pattern: /^[A-Za-z0-9_-]+$/,
  takes: audienceTakes,
});
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

/** Longest statement in bytes; with everything else it has to fit a body. */
const maxSqlBytes = 1_000_000;
const pointInTime = (description: string): Field<string> =>
  textField({ description: `${description}; RFC 3339, or nanoseconds since 1970`, maxBytes: 64 });

const limit = queryInteger({
  min: 1,
  max: 500,
  fallback: 100,
  description: "most rows to return, at most 500; larger numbers count as 500",
});
const offset = queryInteger({
  min: 0,
  max: Number.MAX_SAFE_INTEGER,
  fallback: 0,
  description: "rows to pass over",
});
const page = { limit, offset };
const includeRevoked = queryBoolean(true, "whether revoked keys are listed");

const string = { type: "string" } as const;
const time = { type: "string", format: "date-time" } as const;
const uuid = { type: "string", format: "uuid" } as const;
const orNull = (schema: JsonSchema): JsonSchema => ({
  ...schema,
  type: [schema["type"], "null"],
});
const strings = { type: "array", items: string } as const;

function object(properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return {
    type: "object",
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  };
}

const usage = object({
  requests: { type: "integer" },
  bytes: { type: "integer" },
  records: { type: "integer" },
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
  MintedIngestionKey: object({ ...mintedKey, audience: string, claimed: { type: "boolean" } }),
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
    is_admin: { type: "boolean" },
    admins_open: {
      type: "boolean",
      description:
        "true while the group admins holds *, which makes everybody an administrator; to end it, add the administrators and remove *",
    },
    read: strings,
    mint: strings,
    self_service: { type: "boolean" },
  }),
  Group: object({ name: string, created_at: time, created_by: string }),
  GroupMember: object({ member: string, created_at: time, created_by: string }),
  AuditEntry: object({
    audit_id: { type: "integer" },
    at: time,
    actor: string,
    action: string,
    target: string,
    details: { type: "object" },
  }),
  Config: object({
    version: string,
    features: strings,
    default_audience: string,
    self_service: { type: "boolean", description: "whether people who are no administrators may mint ingestion keys" },
    login: { ...orNull(string), description: "path to send a browser to; null while authentication is disabled" },
    query_max_rows: { type: "integer" },
    queries_per_session: { type: "integer" },
  }),
} as const satisfies Readonly<Record<string, JsonSchema>>;

const ref = (name: keyof typeof components): JsonSchema => ({
  $ref: `#/components/schemas/${name}`,
});
const one = (description: string, name: keyof typeof components): OperationResponse => ({
  description,
  schema: ref(name),
});
const many = (description: string, name: keyof typeof components): OperationResponse => ({
  description,
  schema: { type: "array", items: ref(name) },
});
const nothing = (description: string): OperationResponse => ({ description, schema: null });

type NoFields = Readonly<Record<string, never>>;

function operation<
  const P extends Fields = NoFields,
  const Q extends Fields = NoFields,
  const B extends Fields | null = null,
>(
  method: Operation["method"],
  path: string,
  o: {
    readonly summary: string;
    readonly access: Operation["access"];
    readonly pathParameters?: P;
    readonly query?: Q;
    readonly body?: B;
    readonly responses: Operation["responses"];
    readonly errors?: readonly ErrorCode[];
  },
): Operation & { readonly pathParameters: P; readonly query: Q; readonly body: B } {
  return {
    method,
    path,
    summary: o.summary,
    access: o.access,
    // Left out means empty, which is what the defaults of the type parameters say.
    pathParameters: o.pathParameters ?? ({} as P),
    query: o.query ?? ({} as Q),
    body: o.body ?? (null as B),
    responses: o.responses,
    errors: o.errors ?? [],
  };
}

/** Every admin route. */
export const operations = {
  mintIngestionKey: operation("POST", "/api/ingestion-api-keys", {
    summary: "Mint an ingestion key, claiming a brand-new audience where the caller may",
    access: "caller",
    body: {
      name: keyName,
      audience: optional(audience),
      user_audience: optional(
        textField({
          description: "instead of audience: suffix of an audience that begins with the caller's email local part",
          pattern: /^[A-Za-z0-9_-]+$/,
          takes: audienceTakes,
        }),
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
    summary: "List changes of keys, grants and groups, newest first",
    access: "admin",
    query: page,
    responses: { 200: many("the entries", "AuditEntry") },
  }),
  query: operation("POST", "/api/query", {
    summary: "Run a statement as the caller; the answer is a stream of frames of Arrow messages",
    access: "caller",
    body: {
      sql: textField({ description: "the statement", maxBytes: maxSqlBytes }),
      data_source: optional(textField({ description: "analytics server to ask; unless given, the default one" })),
      begin: optional(pointInTime("rows before this time are left out")),
      end: optional(pointInTime("rows at or after this time are left out")),
      limit: optional(
        integerField({
          min: 1,
          max: 1_000_000_000,
          description: "rows after which the result ends, with the batch in which they are reached",
        }),
      ),
      parameters: optional(
        scalarsField({
          maxItems: 1000,
          description: "a value for each ? of the statement; whole numbers beyond 2^53 and times as text",
        }),
      ),
    },
    responses: {
      200: {
        description:
          "frames: a byte of kind, four bytes of length (little endian), the payload. S schema and B record batch (or dictionary), each an encapsulated Arrow IPC message; P progress {rows, bytes, milliseconds}; the last one is D done {rows, bytes, milliseconds, cut} or E error {code, message, request_id}, all JSON. On Accept: application/vnd.apache.arrow.stream an Arrow IPC stream instead, which lacks its end when the query fails",
        schema: { type: "string", format: "binary" },
        types: [framesType, arrowStreamType],
      },
    },
    errors: ["NOT_FOUND", "TOO_MANY_REQUESTS"],
  }),
  config: operation("GET", "/api/config", {
    summary: "What a web application has to know before anybody logs in",
    access: "public",
    responses: { 200: one("the configuration", "Config") },
  }),
  openApi: operation("GET", "/api/openapi.json", {
    summary: "This document",
    access: "public",
    responses: { 200: { description: "an OpenAPI 3.1 document", schema: { type: "object" } } },
  }),
} as const satisfies Readonly<Record<string, Operation>>;

/** Name of an admin route. */
export type OperationId = keyof typeof operations;

/** Operations that the front end answers without the database. */
export const frontOperations = ["query", "config", "openApi"] as const satisfies readonly OperationId[];
/** Operations that ask the database. */
export type StoredOperationId = Exclude<OperationId, (typeof frontOperations)[number]>;

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
