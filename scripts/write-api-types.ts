/**
 * Writes web/src/api/wire.ts, the types of what the web server answers: `node dist/scripts/write-api-types.js`. They come
 * from the schemas that the OpenAPI document shows and the tests hold answers to. A test keeps the file true.
 */
import { writeFileSync } from "node:fs";

import { components } from "../src/wire/web/admin-api.js";
import type { JsonSchema } from "../src/wire/web/fields.js";

/** Where the types are. */
export const apiTypesFile = new URL("../../web/src/api/wire.ts", import.meta.url);

const head = `/** What the web server answers. Written by scripts/write-api-types.ts from the tables of its routes: change those. */`;

/** The file: an exported type for each named schema, in their order. */
export function apiTypesText(): string {
  const types = Object.entries<JsonSchema>(components).map(
    ([name, schema]) => `export interface ${name} ${typeOf(schema, 0)}`,
  );
  return `${[head, ...types].join("\n\n")}\n`;
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
          return properties === undefined ? "Readonly<Record<string, unknown>>" : membersOf(schema, depth);
        default:
          throw new Error(`no type for ${JSON.stringify(schema)}`);
      }
    })
    .join(" | ");
}

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
