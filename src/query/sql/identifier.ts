/**
 * Names as DuckDB compares them: it folds the letters A to Z and no others, and no locale. A fold that knows more
 * (KELVIN SIGN to k) would call two names one that are two to DuckDB, and let one of them through.
 */
export function foldName(name: string): string {
  return name.replaceAll(/[A-Z]+/gu, (letters) => letters.toLowerCase());
}
