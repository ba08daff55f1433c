/** `SVC_API_KEYS`, the keyring of the object cache. */

/** One entry. */
export interface KeyringEntry {
  readonly name: string;
  /** Secret. */
  readonly key: string;
}

/** Words what {@link checkKeyring} accepts. */
export const keyringTakes = 'a JSON array [{"name": "...", "key": "..."}, ...]';

/** Reads the document; a sentence when it has another shape. */
export function checkKeyring(document: unknown): readonly KeyringEntry[] | string {
  if (!Array.isArray(document)) return "the value must be an array";
  const entries: KeyringEntry[] = [];
  for (const [index, entry] of document.entries()) {
    const { name, key } = (entry ?? {}) as { readonly name?: unknown; readonly key?: unknown };
    if (typeof name !== "string" || name === "" || typeof key !== "string" || key === "") {
      return `entry ${index} must have a name and a key`;
    }
    entries.push({ name, key });
  }
  return entries;
}
