/** What the tables of routes are made of. */
import type { ErrorCode } from "../../runtime/errors.js";
import { type Field, type Fields, type JsonSchema, queryInteger, textField, type Values } from "./fields.js";

/** Answer of an operation: a schema, or null for no body. */
interface OperationResponse {
  readonly description: string;
  readonly schema: JsonSchema | null;
  /** Media types of the body; by default JSON. */
  readonly types?: readonly string[];
}

/** A body that is no JSON. */
interface Upload {
  readonly type: string;
  readonly description: string;
  readonly maxBytes: number;
}

/** One route. */
export interface Operation {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the base path; `{name}` is one segment. */
  readonly path: string;
  readonly summary: string;
  /** `public`: anybody, no cookie; `caller`: anybody logged in; `admin`: members of `admins`. */
  readonly access: "public" | "caller" | "admin";
  readonly pathParameters: Fields;
  readonly query: Fields;
  /** Null for a route that takes no JSON. */
  readonly body: Fields | null;
  readonly upload: Upload | null;
  readonly responses: Readonly<Record<number, OperationResponse>>;
  /** Errors beside those that every route of its access can answer. */
  readonly errors: readonly ErrorCode[];
}

type NoFields = Readonly<Record<string, never>>;

/** A row of the table; what is left out is empty. */
export function operation<
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
    readonly upload?: Upload;
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
    upload: o.upload ?? null,
    responses: o.responses,
    errors: o.errors ?? [],
  };
}

export const string = { type: "string" } as const;
export const boolean = { type: "boolean" } as const;
export const integer = { type: "integer" } as const;
export const time = { type: "string", format: "date-time" } as const;
export const uuid = { type: "string", format: "uuid" } as const;
export const strings = { type: "array", items: string } as const;

/** The schema, or null. */
export function orNull(schema: JsonSchema): JsonSchema {
  return { ...schema, type: [schema["type"], "null"] };
}

/** An object of exactly these members. */
export function object(properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return {
    type: "object",
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  };
}

/** What operations answer, by the names of schemas. */
export function responsesOf<const Components extends Readonly<Record<string, JsonSchema>>>(
  _components: Components,
): {
  readonly one: (description: string, name: keyof Components & string) => OperationResponse;
  readonly many: (description: string, name: keyof Components & string) => OperationResponse;
} {
  const ref = (name: string): JsonSchema => ({ $ref: `#/components/schemas/${name}` });
  return {
    one: (description, name) => ({ description, schema: ref(name) }),
    many: (description, name) => ({ description, schema: { type: "array", items: ref(name) } }),
  };
}

/** An answer without a body. */
export function nothing(description: string): OperationResponse {
  return { description, schema: null };
}

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

/** A part of a list. */
export const page = { limit, offset };
/** The same as it is read. */
export type Page = Values<typeof page>;

/** A point in time, to be read by `parseTimeNs`. */
export function pointInTime(description: string): Field<string> {
  return textField({ description: `${description}; RFC 3339, or nanoseconds since 1970`, maxBytes: 64 });
}

/** The name of an audience, or a part of one. */
export function audienceField(description: string): Field<string> {
  return textField({
    description,
    pattern: /^[A-Za-z0-9_-]+$/,
    takes: "letters, digits, _ and - only (^[A-Za-z0-9_-]+$), at most 255 of them",
  });
}

export const audience = audienceField("an audience");
