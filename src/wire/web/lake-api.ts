/** The routes over the lake itself as data, as admin-api.ts has them: retention, erasures, checks. */
import { uuidPattern } from "../../runtime/text/uuid.js";
import { ServiceError } from "../../runtime/errors.js";
import { isObject } from "telemetry-service-client/shared/is-object";
import {
  booleanField,
  type Field,
  type Fields,
  integerField,
  type JsonSchema,
  oneOfField,
  optional,
  readFields,
  textField,
} from "./fields.js";
import {
  audience,
  boolean,
  integer,
  nothing,
  object,
  operation,
  orNull,
  page,
  pointInTime,
  responsesOf,
  string,
  strings,
  time,
  uuid,
} from "./operation.js";

/** What has a retention: the tables of the lake, and the use of keys, which has no audience. */
export const retentionViews = ["log_entries", "measures", "histograms", "spans", "api_key_usage"] as const;

/** Which rows to erase: one of these. */
interface ErasureWhere {
  readonly service?: string;
  readonly process?: string;
  readonly trace?: string;
  readonly attribute?: { readonly key: string; readonly value: string };
}

const view = oneOfField(retentionViews, "whose rows");

const attributeFields = {
  key: textField({ description: "name of an attribute", maxBytes: 1024 }),
  value: textField({
    description: "its value as text, as properties ->> 'key' gives it",
    maxBytes: 8192,
    mayBeEmpty: true,
  }),
};
const lower = (value: string): string => value.toLowerCase();
const whereFields = {
  service: optional(textField({ description: "service.name of the resource", maxBytes: 1024 })),
  process: optional(
    textField({
      description: "process_id",
      pattern: new RegExp(`^${uuidPattern}$`, "iu"),
      takes: "a UUID",
      canonical: lower,
    }),
  ),
  trace: optional(
    textField({
      description: "trace_id",
      pattern: /^[0-9a-f]{32}$/iu,
      takes: "32 hexadecimal digits",
      canonical: lower,
    }),
  ),
  attribute: optional(membersField(attributeFields, "an attribute that rows have")),
};

/** An object of other fields in a body. */
function membersField<F extends Fields>(
  fields: F,
  description: string,
): Field<{ readonly [Name in keyof F]: F[Name] extends Field<infer T> ? T : never }> {
  return {
    required: true,
    schema: {
      type: "object",
      properties: Object.fromEntries(Object.entries(fields).map(([name, { schema }]) => [name, schema])),
      required: Object.entries(fields).flatMap(([name, field]) => (field.required ? [name] : [])),
      additionalProperties: false,
      description,
    },
    read(value, name) {
      if (!isObject(value)) {
        throw new ServiceError("BAD_REQUEST", `${name} must be an object of ${Object.keys(fields).join(", ")}`);
      }
      return readFields(fields, new Map(Object.entries(value)), `member of ${name}:`);
    },
  };
}

const members = membersField(whereFields, "one of: what the rows have in common");
const where: Field<ErasureWhere> = {
  ...members,
  schema: { ...members.schema, minProperties: 1, maxProperties: 1 },
  read(value, name) {
    const { service, process, trace, attribute } = members.read(value, name);
    const given = { service, process, trace, attribute };
    const [only, ...others] = Object.entries(given).filter(([, one]) => one !== undefined);
    if (only === undefined || others.length > 0) {
      throw new ServiceError("BAD_REQUEST", `${name} takes exactly one of ${Object.keys(whereFields).join(", ")}`);
    }
    return Object.fromEntries([only]);
  },
};

const taskRow = {
  state: { type: "string", enum: ["waiting", "running", "done", "failed"] },
  error: orNull(string),
  created_at: time,
  created_by: string,
  started_at: orNull(time),
  finished_at: orNull(time),
};
/** One of its members. */
const whereSchema: JsonSchema = {
  ...object({ service: string, process: string, trace: string, attribute: object({ key: string, value: string }) }),
  required: [],
};
const problemKinds = [
  "missing",
  "unreadable",
  "wrong_rows",
  "wrong_size",
  "wrong_checksum",
  "orphan",
  "lost",
  "returned",
] as const;
const countNames = ["objects", "rows", ...problemKinds, "mended"];
const reportSchema = object({
  counts: object(Object.fromEntries(countNames.map((name) => [name, integer]))),
  problems: {
    type: "array",
    items: object({
      kind: { type: "string", enum: problemKinds },
      path: string,
      view: orNull(string),
      audience: orNull(string),
      rows: orNull(integer),
      mended: boolean,
      detail: string,
    }),
    description: "the first of them; counts has the number of all",
  },
  notes: { ...strings, description: "what was left undone" },
});

/** The named schemas of these routes. */
export const lakeComponents = {
  RetentionOverride: object({
    view: string,
    audience: { ...orNull(string), description: "null: every audience without an override of its own" },
    days: { ...integer, description: "0: for good" },
    updated_at: time,
    updated_by: string,
  }),
  RetentionDefault: object({
    days: { ...orNull(integer), description: "SVC_RETENTION_DAYS of maintenance; null: for good" },
    seen_at: { ...orNull(time), description: "when maintenance last said so; null: never" },
    held_until: {
      ...orNull(time),
      description:
        "nothing goes for its age before, because the database is new, its clock has jumped, or nobody looked at it for over an hour",
    },
  }),
  ErasureId: object({ erasure_id: uuid }),
  Erasure: object({
    erasure_id: uuid,
    audience: string,
    where: whereSchema,
    begin: { ...orNull(string), description: "nanoseconds since 1970" },
    end: { ...orNull(string), description: "nanoseconds since 1970" },
    rows_removed: integer,
    objects_rewritten: integer,
    objects_removed: integer,
    ...taskRow,
  }),
  LakeCheckId: object({ check_id: uuid }),
  LakeCheck: object({
    check_id: uuid,
    repair: boolean,
    deep: boolean,
    report: { ...orNull(reportSchema), description: "null before it is done" },
    ...taskRow,
  }),
} as const;

const { one, many } = responsesOf(lakeComponents);
// Not checked as a UUID: whatever it is, no task has it, and that is 404.
const id = textField({ description: "its id (UUID); the list shows it", maxBytes: 4096 });

/** Every route over the lake. */
export const lakeOperations = {
  listRetention: operation("GET", "/api/retention", {
    summary: "List overrides of SVC_RETENTION_DAYS, by view and audience",
    access: "admin",
    query: page,
    responses: { 200: many("the overrides", "RetentionOverride") },
  }),
  getRetentionDefault: operation("GET", "/api/retention/default", {
    summary: "How long rows are kept that no override is for",
    access: "admin",
    responses: { 200: one("the default", "RetentionDefault") },
  }),
  putRetention: operation("PUT", "/api/retention", {
    summary: "Say how long rows of a view are kept, of one audience or of all that have no override of their own",
    access: "admin",
    body: {
      view,
      audience: optional(audience),
      days: integerField({ min: 0, max: 36_500, description: "days after rows were received; 0: for good" }),
    },
    responses: {
      200: one("the override, which existed already", "RetentionOverride"),
      201: one("the override", "RetentionOverride"),
    },
    errors: ["CONFLICT"],
  }),
  deleteRetention: operation("DELETE", "/api/retention", {
    summary: "Delete an override",
    access: "admin",
    query: { view, audience: optional(audience) },
    responses: { 204: nothing("deleted") },
    errors: ["NOT_FOUND"],
  }),
  createErasure: operation("POST", "/api/erasures", {
    summary: "Erase the rows of an audience that have something in common; maintenance does it",
    access: "admin",
    body: {
      audience,
      where,
      begin: optional(pointInTime("rows whose time is before this one stay")),
      end: optional(pointInTime("rows whose time is this one or later stay")),
    },
    responses: { 202: one("its id", "ErasureId") },
    errors: ["CONFLICT"],
  }),
  listErasures: operation("GET", "/api/erasures", {
    summary: "List erasures, newest first",
    access: "admin",
    query: page,
    responses: { 200: many("the erasures", "Erasure") },
  }),
  getErasure: operation("GET", "/api/erasures/{id}", {
    summary: "How an erasure stands",
    access: "admin",
    pathParameters: { id },
    responses: { 200: one("the erasure", "Erasure") },
    errors: ["NOT_FOUND"],
  }),
  createLakeCheck: operation("POST", "/api/lake-checks", {
    summary: "Compare the catalogue with the objects of the store; maintenance does it",
    access: "admin",
    body: {
      repair: optional(booleanField("remove orphans, and take what cannot be read out of the catalogue")),
      deep: optional(booleanField("read every value, not only footers")),
    },
    responses: { 202: one("its id", "LakeCheckId") },
    errors: ["CONFLICT"],
  }),
  listLakeChecks: operation("GET", "/api/lake-checks", {
    summary: "List checks, newest first",
    access: "admin",
    query: page,
    responses: { 200: many("the checks", "LakeCheck") },
  }),
  getLakeCheck: operation("GET", "/api/lake-checks/{id}", {
    summary: "How a check stands, and its report",
    access: "admin",
    pathParameters: { id },
    responses: { 200: one("the check", "LakeCheck") },
    errors: ["NOT_FOUND"],
  }),
} as const;
