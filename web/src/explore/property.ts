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
  return object === null
    ? []
    : Object.entries(object).map(([name, value]: [string, unknown]) => ({
        name,
        value:
          value === null
            ? null
            : typeof value === "object"
              ? JSON.stringify(value)
              : exactText(json ?? "", name, value),
      }));
}

/** Whole numbers beyond 2^53 keep their digits. */
function exactText(json: string, name: string, value: unknown): string {
  if (typeof value !== "number" || Number.isSafeInteger(value) || !Number.isInteger(value)) {
    return plainText(value);
  }
  const at = json.indexOf(`${JSON.stringify(name)}:`);
  return (
    /^-?\d+(?![\d.e])/i.exec(json.slice(at + JSON.stringify(name).length + 1).trimStart())?.[0] ?? plainText(value)
  );
}

const plainText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
