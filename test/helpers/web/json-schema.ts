/** Checks a value against the part of JSON Schema that the OpenAPI document uses. */

type Schema = Readonly<Record<string, unknown>>;

/** Null when `value` fits, else where and why it does not. */
export function schemaProblem(
  schema: Schema,
  value: unknown,
  components: Readonly<Record<string, Schema>>,
  at = "$",
): string | null {
  const reference = schema["$ref"];
  if (typeof reference === "string") {
    const name = reference.replace("#/components/schemas/", "");
    const target = components[name];
    return target === undefined ? `${at}: no schema ${name}` : schemaProblem(target, value, components, at);
  }
  const types = [schema["type"]].flat();
  if (!types.includes(typeOf(value)) && !(types.includes("number") && typeOf(value) === "integer")) {
    return `${at} is ${typeOf(value)}, not ${types.join(" or ")}`;
  }
  const allowed = schema["enum"];
  if (Array.isArray(allowed) && !allowed.includes(value)) {
    return `${at} is none of ${allowed.join(", ")}`;
  }
  if (typeof value === "string" && !fitsFormat(schema["format"], value)) {
    return `${at} is no ${String(schema["format"])}`;
  }
  if (Array.isArray(value)) {
    return first(value, (item, i) => schemaProblem((schema["items"] ?? {}) as Schema, item, components, `${at}[${i}]`));
  }
  if (typeof value === "object" && value !== null) {
    const properties = (schema["properties"] ?? {}) as Record<string, Schema>;
    const missing = ((schema["required"] ?? []) as string[]).find((name) => !(name in value));
    if (missing !== undefined) {
      return `${at}.${missing} is missing`;
    }
    return first(Object.entries(value), ([name, item]) => {
      const known = properties[name];
      if (known !== undefined) {
        return schemaProblem(known, item, components, `${at}.${name}`);
      }
      return schema["additionalProperties"] === false ? `${at}.${name} is not documented` : null;
    });
  }
  return null;
}

function typeOf(value: unknown): string {
  if (value === null) {
    return "null";
  }
  if (Array.isArray(value)) {
    return "array";
  }
  return Number.isInteger(value) ? "integer" : typeof value;
}

function fitsFormat(format: unknown, value: string): boolean {
  if (format === "uuid") {
    return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value);
  }
  if (format === "date-time") {
    return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value);
  }
  return true;
}

function first<T>(items: readonly T[], check: (item: T, i: number) => string | null): string | null {
  for (const [i, item] of items.entries()) {
    const problem = check(item, i);
    if (problem !== null) {
      return problem;
    }
  }
  return null;
}
