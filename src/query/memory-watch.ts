/** What a DuckDB instance holds, measured from time to time while queries run. */
import type { DuckDBInstance } from "@duckdb/node-api";

import { connectEngine } from "./engine.js";

/** The measurements of one query's life. */
export interface MemoryRecord {
  /** Most bytes of memory and temporary storage; null before the first measurement. */
  readonly peakBytes: number | null;
  /** Ends the record. */
  stop(): void;
}

/** One per instance. */
export interface MemoryWatch {
  /** Begins a record; the instance is measured as long as there is one. */
  start(): MemoryRecord;
  /** Resolves when no measurement is under way. */
  settled(): Promise<void>;
}

const memoryEveryMs = 200;
const memorySql =
  "SELECT CAST(sum(memory_usage_bytes + temporary_storage_bytes) AS DOUBLE) FROM duckdb_memory()";

/** Creates the watch of an instance. Short queries cost it nothing. */
export function createMemoryWatch(instance: DuckDBInstance): MemoryWatch {
  const records = new Set<{ peakBytes: number | null }>();
  let timer: NodeJS.Timeout | null = null;
  let measuring: Promise<void> | null = null;
  const measure = async (): Promise<void> => {
    const connection = await connectEngine(instance);
    try {
      const reader = await connection.runAndReadAll(memorySql);
      const bytes = reader.getRows()[0]?.[0];
      if (typeof bytes !== "number") return;
      for (const record of records) {
        if (record.peakBytes === null || bytes > record.peakBytes) record.peakBytes = bytes;
      }
    } catch {
      // A measurement less; the query itself will say what is wrong.
    } finally {
      // Never while a call is in progress: that would take the process down.
      connection.closeSync();
      measuring = null;
    }
  };
  return {
    start: () => {
      const record = {
        peakBytes: null,
        stop: () => {
          records.delete(record);
          if (records.size > 0 || timer === null) return;
          clearInterval(timer);
          timer = null;
        },
      };
      records.add(record);
      timer ??= setInterval(() => {
        measuring ??= measure();
      }, memoryEveryMs);
      return record;
    },
    settled: () => measuring ?? Promise.resolve(),
  };
}
