/** How people are named in tokens, grants and groups: by emails. */

/** An email as members hold it, to be put between anchors: one `@`, no white space. */
export const emailPattern = "[^\\s@]+@[^\\s@]+";

/**
 * Folds A to Z only, as `lower(... collate "C")` does in Postgres. Folding all of Unicode takes letters
 * for others that only look or sound like them: the Kelvin sign becomes a k.
 */
export function asciiLower(text: string): string {
  return text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}
