/**
 * Names as DuckDB compares them: it folds the letters A to Z only, in any locale. A wider fold (KELVIN
 * SIGN to k) would treat two names of DuckDB as one, and let one of them through.
 */
export function foldName(name: string): string {
  return name.replaceAll(/[A-Z]+/gu, (letters) => letters.toLowerCase());
}
