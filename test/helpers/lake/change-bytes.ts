import { readFile, writeFile } from "node:fs/promises";

/** Changes a byte of an object that no row needs: all of it can be read, and its checksum alone tells. */
export async function changeBytes(file: string): Promise<void> {
  const bytes = await readFile(file);
  bytes.write("DuckDC", bytes.lastIndexOf("DuckDB"));
  await writeFile(file, bytes);
}
