/** Attributes of a row, one by one. */
import { parseJson } from "../ui/json/json.js";

/** A name and its value as text, as filters compare it; null: there is none. */
export interface Property {
  readonly name: string;
  readonly value: string | null;
}

/** The attributes of a JSON object of the lake; none when it is not there. */
export function propertiesOf(json: string | null): readonly Property[] {
  const object = json === null ? null : parseJson(json);
  if (json === null || object === null) {
    return [];
  }
  let written: ReadonlyMap<string, string> | null = null;
  const textOf = (name: string, value: unknown): string => {
    const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
    return (isRounded ? (written ??= wholeNumbers(json)).get(name) : undefined) ?? plainText(value);
  };
  return Object.entries(object).map(([name, value]: [string, unknown]) => ({
    name,
    value: value === null ? null : textOf(name, value),
  }));
}

/** Whole numbers of the object itself as they are written: those beyond 2^53 keep their digits. */
function wholeNumbers(json: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  let depth = 0;
  let name = '""';
  let quote: number | null = null;
  // Strings are no tokens: one of megabytes is more than a regular expression can take.
  for (const { 0: token, index } of json.matchAll(/\\.|["[\]{}]|-?\d[\d.eE+-]*/g)) {
    if (token === '"') {
      name = quote !== null && depth === 1 ? json.slice(quote, index + 1) : name;
      quote = quote === null ? index : null;
    } else if (quote !== null) {
      continue;
    } else if (token === "{" || token === "[") {
      depth++;
    } else if (token === "}" || token === "]") {
      depth--;
    } else if (depth === 1 && /^-?\d+$/.test(token)) {
      found.set(JSON.parse(name) as string, token);
    }
  }
  return found;
}

const plainText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
