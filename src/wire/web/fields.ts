/**
 * Fields of requests: each one validates a value and describes itself as JSON Schema (2020-12, the
 * dialect of OpenAPI 3.1), so that what is documented is what is checked. Every refusal is
 * BAD_REQUEST with a sentence that says what to change.
 */
import { ServiceError } from "../../runtime/errors.js";
import { isObject } from "telemetry-service-client/shared/is-object";

/** A JSON Schema, as far as this service writes one. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** One field of a body, a query or a path. */
export interface Field<T> {
  readonly schema: JsonSchema;
  readonly required: boolean;
  /**
   * @param value what the request holds: JSON of a body, text of a query or path, undefined when absent.
   * @throws ServiceError BAD_REQUEST that names the field.
   */
  read(value: unknown, name: string): T;
}

/** Fields by name. */
export type Fields = Readonly<Record<string, Field<unknown>>>;

/** What a set of fields reads to. */
export type Values<F extends Fields> = {
  readonly [Name in keyof F]: F[Name] extends Field<infer T> ? T : never;
};

const bad = (message: string): ServiceError => new ServiceError("BAD_REQUEST", message);

/** Options of {@link textField}. */
interface TextOptions {
  readonly description: string;
  /** In UTF-8. Default 255. */
  readonly maxBytes?: number;
  /** Default false. */
  readonly mayBeEmpty?: boolean;
  /** Matches the whole value. */
  readonly pattern?: RegExp;
  /** Words {@link pattern}, and anything else a value has to be. */
  readonly takes?: string;
  /** Rewrites a value that fits. */
  readonly canonical?: (value: string) => string;
}

/** A text without NUL, by default a non-empty one. */
export function textField(o: TextOptions): Field<string> {
  const maxBytes = o.maxBytes ?? 255;
  return {
    required: true,
    schema: {
      type: "string",
      minLength: o.mayBeEmpty === true ? 0 : 1,
      maxLength: maxBytes,
      ...(o.pattern === undefined ? {} : { pattern: o.pattern.source }),
      description: o.description,
    },
    read(value, name) {
      if (value === undefined) {
        throw bad(`${name} is missing: ${o.description}`);
      }
      if (typeof value !== "string") {
        throw bad(`${name} must be a string`);
      }
      if (value === "" && o.mayBeEmpty !== true) {
        throw bad(`${name} must not be empty`);
      }
      if (Buffer.byteLength(value, "utf8") > maxBytes) {
        throw bad(`${name} must be at most ${maxBytes} bytes in UTF-8`);
      }
      if (value.includes("\0") || Buffer.from(value, "utf8").toString("utf8") !== value) {
        throw bad(`${name} must be valid Unicode text without NUL`);
      }
      if (o.pattern !== undefined && !o.pattern.test(value)) {
        throw bad(`${name} must be ${o.takes ?? `text that matches ${o.pattern.source}`}`);
      }
      return o.canonical === undefined ? value : o.canonical(value);
    },
  };
}

/** One of several texts. */
export function oneOfField<const T extends string>(values: readonly T[], description: string): Field<T> {
  return {
    required: true,
    schema: { type: "string", enum: values, description },
    read(value, name) {
      const known = values.find((candidate) => candidate === value);
      if (known !== undefined) {
        return known;
      }
      const what = value === undefined ? "is missing: it" : "";
      throw bad(`${name} ${what} must be ${values.join(" or ")}`.replace("  ", " "));
    },
  };
}

/** A field that may be left out. In a body `null` says the same. */
export function optional<T>(field: Field<T>): Field<T | undefined> {
  return {
    required: false,
    schema: field.schema,
    read: (value, name) => (value === undefined || value === null ? undefined : field.read(value, name)),
  };
}

/** A whole number in a query, in decimal digits; above `max` it counts as `max`. */
export function queryInteger(o: {
  readonly min: number;
  readonly max: number;
  readonly fallback: number;
  readonly description: string;
}): Field<number> {
  return {
    required: false,
    // No maximum: a larger number is not refused.
    schema: { type: "integer", minimum: o.min, default: o.fallback, description: o.description },
    read(value, name) {
      if (value === undefined) {
        return o.fallback;
      }
      if (typeof value !== "string" || !/^[+-]?\d+$/.test(value) || Number(value) < o.min) {
        throw bad(`${name} must be a whole number of at least ${o.min}`);
      }
      return Math.min(Number(value), o.max);
    },
  };
}

/** A whole number in a query that may be left out. */
export function optionalInteger(o: { readonly min: number; readonly description: string }): Field<number | undefined> {
  return {
    required: false,
    schema: { type: "integer", minimum: o.min, description: o.description },
    read(value, name) {
      if (value === undefined) {
        return undefined;
      }
      if (typeof value !== "string" || !/^\d{1,15}$/.test(value) || Number(value) < o.min) {
        throw bad(`${name} must be a whole number of at least ${o.min}`);
      }
      return Number(value);
    },
  };
}

/** A whole number in a body. */
export function integerField(o: {
  readonly min: number;
  readonly max: number;
  readonly description: string;
}): Field<number> {
  return {
    required: true,
    schema: { type: "integer", minimum: o.min, maximum: o.max, description: o.description },
    read(value, name) {
      if (typeof value === "number" && Number.isSafeInteger(value) && value >= o.min && value <= o.max) {
        return value;
      }
      throw bad(`${name} must be a whole number from ${o.min} to ${o.max}`);
    },
  };
}

/** A value that JSON has no more of than text, number and truth. */
type Scalar = null | boolean | number | string;

/** True or false in a body. */
export function booleanField(description: string): Field<boolean> {
  return {
    required: true,
    schema: { type: "boolean", description },
    read(value, name) {
      if (typeof value !== "boolean") {
        throw bad(`${name} must be true or false`);
      }
      return value;
    },
  };
}

/** Bounds of {@link jsonObjectField}. */
export interface JsonBounds {
  readonly description: string;
  /** As text. */
  readonly maxBytes: number;
  /** Objects and lists within one another. */
  readonly maxDepth: number;
  /** Objects, lists, texts, numbers and all else. */
  readonly maxValues: number;
}

/** Any JSON object within bounds; it reads to its text. */
export function jsonObjectField(o: JsonBounds): Field<string> {
  return {
    required: true,
    schema: { type: "object", description: o.description },
    read(value, name) {
      if (!isObject(value)) {
        throw bad(`${name} must be a JSON object`);
      }
      checkExtent(value, name, o);
      const text = JSON.stringify(value);
      if (Buffer.byteLength(text) > o.maxBytes) {
        throw bad(`${name} must be at most ${o.maxBytes} bytes of JSON`);
      }
      return text;
    },
  };
}

/** Level by level, so that depth costs no stack. */
function checkExtent(root: object, name: string, { maxDepth, maxValues }: JsonBounds): void {
  let level: unknown[] = [root];
  let values = 0;
  for (let depth = 1; level.length > 0; depth++) {
    values += level.length;
    if (values > maxValues) {
      throw bad(`${name} must hold at most ${maxValues} values`);
    }
    const containers = level.filter((value): value is object => typeof value === "object" && value !== null);
    if (containers.length > 0 && depth > maxDepth) {
      throw bad(`${name} must nest at most ${maxDepth} levels deep`);
    }
    level = containers.flatMap((value) => Object.values(value) as unknown[]);
  }
}

/** A list of scalars in a body. */
export function scalarsField(o: { readonly maxItems: number; readonly description: string }): Field<readonly Scalar[]> {
  return {
    required: true,
    schema: {
      type: "array",
      maxItems: o.maxItems,
      items: { type: ["null", "boolean", "number", "string"] },
      description: o.description,
    },
    read(value, name) {
      if (!Array.isArray(value) || value.length > o.maxItems || !value.every((item) => isScalar(item))) {
        throw bad(`${name} must be a list of at most ${o.maxItems} texts, numbers, true, false and null`);
      }
      return value;
    },
  };
}

function isScalar(value: unknown): value is Scalar {
  return value === null || ["boolean", "number", "string"].includes(typeof value);
}

/** `true` or `false` in a query, or 1 or 0. */
export function queryBoolean(fallback: boolean, description: string): Field<boolean> {
  return {
    required: false,
    schema: { type: "boolean", default: fallback, description },
    read(value, name) {
      if (value === undefined) {
        return fallback;
      }
      if (value === "true" || value === "1") {
        return true;
      }
      if (value === "false" || value === "0") {
        return false;
      }
      throw bad(`${name} must be true or false`);
    },
  };
}

/**
 * Reads a body.
 * @throws ServiceError BAD_REQUEST for what is not a JSON object of exactly these fields.
 */
export function readBody<F extends Fields>(fields: F, body: Uint8Array): Values<F> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (cause) {
    throw new ServiceError("BAD_REQUEST", "the body must be a JSON object in UTF-8", { cause });
  }
  if (!isObject(value)) {
    throw bad(`the body must be a JSON object${namesOf(fields)}`);
  }
  return readFields(fields, new Map(Object.entries(value)), "field");
}

/**
 * Reads a query string.
 * @throws ServiceError BAD_REQUEST for an unknown or repeated parameter, or one that does not fit.
 */
export function readQuery<F extends Fields>(fields: F, query: string): Values<F> {
  const values = new Map<string, unknown>();
  for (const [name, value] of new URLSearchParams(query)) {
    if (values.has(name)) {
      throw bad(`${name} must be given once`);
    }
    values.set(name, value);
  }
  return readFields(fields, values, "query parameter");
}

/** Reads named values; `what` words an unknown one. @throws ServiceError BAD_REQUEST. */
export function readFields<F extends Fields>(fields: F, values: ReadonlyMap<string, unknown>, what: string): Values<F> {
  for (const name of values.keys()) {
    if (!Object.hasOwn(fields, name)) {
      throw bad(`unknown ${what} ${JSON.stringify(name.slice(0, 64))}${namesOf(fields)}`);
    }
  }
  const read = Object.entries(fields).map(([name, field]) => [name, field.read(values.get(name), name)]);
  // Every value was read by its own field, which is what Values says.
  return Object.fromEntries(read) as Values<F>;
}

function namesOf(fields: Fields): string {
  const names = Object.keys(fields);
  return names.length === 0 ? "; this route takes none" : `; this route takes ${names.join(", ")}`;
}

/** The JSON Schema of a body with these fields. */
export function bodySchema(fields: Fields): JsonSchema {
  const entries = Object.entries(fields);
  return {
    type: "object",
    properties: Object.fromEntries(
      entries.map(([name, { schema, required }]) => [
        name,
        required ? schema : { ...schema, type: [schema["type"], "null"] },
      ]),
    ),
    required: entries.filter(([, field]) => field.required).map(([name]) => name),
    additionalProperties: false,
  };
}
