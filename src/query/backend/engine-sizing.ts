/** How many engine processes there may be, and how large they are. */

/** What decides it; bytes. */
export interface SizingOptions {
  /** `SVC_QUERY_MAX_CONCURRENT`. */
  readonly maxConcurrent: number;
  /** `SVC_QUERY_MEMORY_BYTES`; null: as the machine allows. */
  readonly memoryBytes: number | null;
  /** What a process takes beside the memory of its query. */
  readonly processBytes: number;
  /** Memory of the machine. */
  readonly machineBytes: number;
  /** Processors of the machine. */
  readonly cores: number;
}

/** Processes and their memory. */
export interface EngineSizing {
  /** Queries that run at a time. */
  readonly queries: number;
  /** Inspections that run beside them. */
  readonly inspections: number;
  /** Memory of one query in bytes. */
  readonly memoryBytes: number;
  /** Threads of one query: each aggregates and sorts on its own, and needs memory for it. */
  readonly threads: number;
}

/** Beside those of queries, so that planning does not wait for results to be read; two, so that nobody has all. */
const inspections = 2;
/** With less for each, rather fewer run at a time; more is what a query seldom wants. */
const wantedBytes = 512 << 20;
const leastBytes = 64 << 20;
const mostBytes = 2 ** 32;
/** With 16 MiB for each of its threads, grouping a million log records failed; one thread does it in 64. */
const bytesPerThread = 64 << 20;

/** Sizes that keep all processes together below half of the machine's memory, where three fit; what is set stays as it is. */
export function sizeEngines(o: SizingOptions): EngineSizing {
  const sizes = o.memoryBytes === null ? sizesFor(o) : { queries: o.maxConcurrent, memoryBytes: o.memoryBytes };
  const threads = Math.max(1, Math.min(o.cores, Math.floor(sizes.memoryBytes / bytesPerThread)));
  return { ...sizes, inspections, threads };
}

function sizesFor({ maxConcurrent, processBytes, machineBytes }: SizingOptions): {
  readonly queries: number;
  readonly memoryBytes: number;
} {
  const half = machineBytes / 2;
  const fitting = Math.floor(half / (processBytes + wantedBytes)) - inspections;
  const queries = Math.max(1, Math.min(maxConcurrent, fitting));
  const share = Math.floor(half / (queries + inspections)) - processBytes;
  return { queries, memoryBytes: Math.min(mostBytes, Math.max(leastBytes, share)) };
}
