/** `SVC_API_KEYS`: who may ask the object cache. */
import { isObject } from "telemetry-service-client/shared/is-object";

/** An entry of the keyring. */
interface NamedKey {
  /** What the log calls its holder. */
  readonly name: string;
  readonly key: string;
}

/** Words what {@link checkApiKeys} accepts. */
export const apiKeysTakes =
  'a JSON array [{"name": NAME, "key": KEY}, ...] with at least one entry, names and keys different, keys of visible ASCII characters';

const maxNameLength = 255;
const maxKeyLength = 4096;

/**
 * Reads the document.
 * @returns a sentence that names the entry when it has another shape, and never its key
 */
export function checkApiKeys(document: unknown): readonly NamedKey[] | string {
  if (!Array.isArray(document) || document.length === 0) {
    return "the value must be an array with at least one entry";
  }
  const keys: NamedKey[] = [];
  for (const [index, entry] of (document as readonly unknown[]).entries()) {
    const key = checkKey(entry);
    if (typeof key === "string") {
      return `entry ${index}${key}`;
    }
    if (keys.some((other) => other.name === key.name || other.key === key.key)) {
      return `entry ${index} has the name or the key of another`;
    }
    keys.push(key);
  }
  return keys;
}

/** @returns the end of a sentence that begins with the entry's place. */
function checkKey(entry: unknown): NamedKey | string {
  if (!isObject(entry)) {
    return " must be an object";
  }
  const { name, key, ...unknown } = entry;
  const [misspelt] = Object.keys(unknown);
  if (misspelt !== undefined) {
    return `: there is no field ${misspelt}`;
  }
  if (typeof name !== "string" || name === "" || name.length > maxNameLength) {
    return `.name must be a text of 1 to ${maxNameLength} characters`;
  }
  if (typeof key !== "string" || key.length > maxKeyLength || !/^[\x21-\x7e]+$/u.test(key)) {
    return `.key must be a text of 1 to ${maxKeyLength} visible ASCII characters`;
  }
  return { name, key };
}
