/** The object or list that a text is; null for any other text. */
export function parseJson(text: string): object | null {
  if (!/^\s*[{[]/.test(text)) {
    return null;
  }
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
