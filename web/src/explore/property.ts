/** Attributes of a row, one by one. */
import { parseJson } from "../ui/json/json.js";

/** A name and its value as text, as filters compare it; null: there is none. */
export interface Property {
  readonly name: string;
  readonly value: string | null;
}

/**
 * The attributes of a JSON object of the lake; none when it is not there. Values are what SQL makes of them, or filters
 * would miss them: `5.0`, and the first of several of one name.
 */
export function propertiesOf(json: string | null): readonly Property[] {
  const object = json === null ? null : parseJson(json);
  if (json === null || object === null) {
    return [];
  }
  // Written anew it is shorter without a value of a name that stands twice, and with 5 for 5.0. Beyond 2^53 digits differ.
  const isSame = JSON.stringify(object).length === json.length && !/\d{16}/.test(json);
  const written = isSame ? null : firstValues(json);
  return Object.entries(object).map(([name, value]: [string, unknown]) => ({
    name,
    value: textOf(written?.get(name) ?? JSON.stringify(value)),
  }));
}

function textOf(json: string): string | null {
  if (json.startsWith('"')) {
    return JSON.parse(json) as string;
  }
  return json === "null" ? null : withoutPlus(json);
}

/** Numbers in it as SQL writes them: 1e21 for 1e+21. */
function withoutPlus(json: string): string {
  let isQuoted = false;
  return json.replaceAll(/\\.|"|e\+/g, (token) => {
    isQuoted = token === '"' ? !isQuoted : isQuoted;
    return token === "e+" && !isQuoted ? "e" : token;
  });
}

/** JSON of the first value of each name of the object itself. */
function firstValues(json: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  let depth = 0;
  let begin = 0;
  let name: string | null = null;
  let isQuoted = false;
  const end = (at: number): void => {
    const key = name === null ? null : (JSON.parse(name) as string);
    if (key !== null && !found.has(key)) {
      found.set(key, json.slice(begin, at).trim());
    }
    name = null;
    begin = at + 1;
  };
  // Strings are no tokens: one of megabytes is more than a regular expression can take.
  for (const { 0: token, index } of json.matchAll(/\\.|["[\]{},:]/g)) {
    if (token === '"') {
      isQuoted = !isQuoted;
    } else if (isQuoted) {
      continue;
    } else if (token === "{" || token === "[") {
      depth++;
      begin = depth === 1 ? index + 1 : begin;
    } else if (token === "}" || token === "]") {
      depth--;
      if (depth === 0) {
        end(index);
      }
    } else if (depth === 1 && token === ":") {
      name = json.slice(begin, index);
      begin = index + 1;
    } else if (depth === 1) {
      end(index);
    }
  }
  return found;
}
