/**
 * Writes web/src/api/wire.ts, the types of what the web server answers: `node dist/scripts/write-api-types.js`. They come
 * from the schemas that the OpenAPI document shows and the tests hold answers to. A test keeps the file true.
 */
import { writeFileSync } from "node:fs";

import { components } from "../src/wire/web/admin-api.js";
import type { JsonSchema } from "../src/wire/web/fields.js";

/** Where the types are. */
export const apiTypesFile = new URL("../../web/src/api/wire.ts", import.meta.url);

type Named = readonly [name: string, schema: JsonSchema];
const named: readonly Named[] = Object.entries<JsonSchema>(components);

const head = `/** What the web server answers. Written by scripts/write-api-types.ts from the tables of its routes: change those. */`;

/** The file: an exported type for each named schema, in their order. */
export function apiTypesText(): string {
  const types = named.map(([name, schema]) => {
    const base = baseOf(schema);
    return `export interface ${name} ${base === null ? "" : `extends ${base[0]} `}${typeOf(without(schema, base), 0)}`;
  });
  return `${[head, ...types].join("\n\n")}\n`;
}

/** The largest of the other types whose members, four and more, it has as well. */
function baseOf(schema: JsonSchema): Named | null {
  const count = (one: JsonSchema): number => Object.keys(propertiesOf(one)).length;
  const [largest] = named
    .filter(([, base]) => count(base) >= 4 && count(base) < count(schema) && hasAll(schema, base))
    .toSorted(([, a], [, b]) => count(b) - count(a));
  return largest ?? null;
}

const hasAll = (schema: JsonSchema, base: JsonSchema): boolean =>
  Object.keys(propertiesOf(base)).every((name) => lineOf(schema, name) === lineOf(base, name));

/** A member of a type: those of the same text are the same. */
const lineOf = (schema: JsonSchema, name: string): string =>
  `${(schema["required"] as readonly string[]).includes(name)} ${JSON.stringify(propertiesOf(schema)[name])}`;

const propertiesOf = (schema: JsonSchema): Readonly<Record<string, JsonSchema>> =>
  (schema["properties"] ?? {}) as Readonly<Record<string, JsonSchema>>;

/** What a type adds to its base. */
function without(schema: JsonSchema, base: Named | null): JsonSchema {
  const own = Object.entries(propertiesOf(schema)).filter(
    ([name]) => base === null || !(name in propertiesOf(base[1])),
  );
  return base === null ? schema : { ...schema, properties: Object.fromEntries(own) };
}

/** @param depth of the braces around it. @throws Error for a schema that says more than a type here can. */
function typeOf(schema: JsonSchema, depth: number): string {
  const { enum: values, items, properties, type } = schema;
  if (Array.isArray(values)) {
    return values.map((value) => JSON.stringify(value)).join(" | ");
  }
  return [type]
    .flat()
    .map((one) => {
      switch (one) {
        case "string":
        case "boolean":
        case "null":
          return one;
        case "integer":
          return "number";
        case "array":
          return `readonly ${parenthesized(typeOf(items as JsonSchema, depth))}[]`;
        case "object":
          return properties === undefined
            ? "Readonly<Record<string, unknown>>"
            : ((depth === 0 ? undefined : nameOf(schema)) ?? membersOf(schema, depth));
        default:
          throw new Error(`no type for ${JSON.stringify(schema)}`);
      }
    })
    .join(" | ");
}

/** Of the type that has the same members. */
const nameOf = ({ properties }: JsonSchema): string | undefined =>
  named.find(([, other]) => JSON.stringify(other["properties"]) === JSON.stringify(properties))?.[0];

const parenthesized = (text: string): string => (/^[^{]*\|/.test(text) ? `(${text})` : text);

function membersOf(schema: JsonSchema, depth: number): string {
  const required = schema["required"] as readonly string[];
  const indent = "  ".repeat(depth + 1);
  const members = Object.entries(schema["properties"] as Readonly<Record<string, JsonSchema>>).flatMap(
    ([name, member]) => [
      ...(typeof member["description"] === "string" ? [`${indent}/** ${sentence(member["description"])} */`] : []),
      `${indent}readonly ${name}${required.includes(name) ? "" : "?"}: ${typeOf(member, depth + 1)};`,
    ],
  );
  return `{\n${members.join("\n")}\n${"  ".repeat(depth)}}`;
}

const sentence = (words: string): string => `${words.slice(0, 1).toUpperCase()}${words.slice(1)}.`;

if (process.argv[1]?.endsWith("write-api-types.js") === true) {
  writeFileSync(apiTypesFile, apiTypesText());
}
