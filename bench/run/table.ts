/** Prints rows of figures as an aligned table. */
export function printTable(title: string, rows: readonly Record<string, string | number>[]): void {
  const columns = Object.keys(rows[0] ?? {});
  const cells = rows.map((row) => columns.map((column) => String(row[column] ?? "")));
  const widths = columns.map((column, i) => Math.max(column.length, ...cells.map((row) => (row[i] as string).length)));
  const line = (row: readonly string[]): string => row.map((cell, i) => cell.padStart(widths[i] as number)).join("  ");
  console.log(`\n${title}\n${line(columns)}`);
  for (const row of cells) {
    console.log(line(row));
  }
}
