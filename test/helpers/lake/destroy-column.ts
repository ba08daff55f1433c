/** Objects that a query cannot read all of, which shows what it does read. */
import { open } from "node:fs/promises";

import { DuckDBInstance } from "@duckdb/node-api";

/** Overwrites the pages of a column; the footer and bloom filters stay. */
export async function destroyColumn(file: string, column: string): Promise<void> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  const reader = await connection.runAndReadAll(
    `SELECT least(coalesce(dictionary_page_offset, data_page_offset), data_page_offset), total_compressed_size
     FROM parquet_metadata('${file}') WHERE path_in_schema = '${column}'`,
  );
  connection.closeSync();
  instance.closeSync();
  const handle = await open(file, "r+");
  try {
    for (const [start, bytes] of reader.getRows()) {
      await handle.write(Buffer.alloc(Number(bytes), 0xff), 0, Number(bytes), Number(start));
    }
  } finally {
    await handle.close();
  }
}
