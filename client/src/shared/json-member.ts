/** A member of a JSON object; undefined for what is none, or has none of its own. */
export function member(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) {
    return undefined;
  }
  return (value as Record<string, unknown>)[name];
}
