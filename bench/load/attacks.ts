/** Statements that are meant to hurt a server, and readers that are. Nobody expects rows from them. */
import { setTimeout as sleep } from "node:timers/promises";

import type { FlightReader } from "./flight-reader.js";

/** What became of one attempt. */
export interface Attempt {
  /** `rows`, the name of a gRPC status as a number, or `given up` by the attacker. */
  readonly outcome: string;
  readonly ms: number;
}

/** One way to hurt. */
export interface Attack {
  readonly name: string;
  /** Never throws. @param patienceMs how long the attacker waits for an answer, or leaves streams unread */
  run(reader: FlightReader, patienceMs: number): Promise<Attempt[]>;
}

const numbers =
  "FROM range(2048) r(i), (SELECT string_agg(j, chr(44)) s, string_agg(j, chr(45)) t FROM range(1000000) g(j))";
const hashes = Array.from(
  { length: 10 },
  (_, n) => `max(sha256(CASE WHEN i % ${n + 2} = 0 THEN s ELSE t END))`,
).join(", ");

const statements: Readonly<Record<string, string>> = {
  "lead before all rows": "SELECT lead(1, -9223372036854775808) OVER ()",
  "lag before all rows": "SELECT lag(1, -9223372036854775808) OVER ()",
  "a list for each row":
    "SELECT max(len(list_append(l, i))) FROM range(2048) t(i), (SELECT list(j) l FROM range(1000000) t(j))",
  "a text for each row":
    "SELECT max(length(upper(s || i))) FROM range(2048) t(i), (SELECT string_agg(j, '') s FROM range(1000000) t(j))",
  "hashes of long texts": `SELECT ${hashes} ${numbers}`,
  "a cross join":
    "SELECT count(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range + b.range = -1",
  "a sort of everything": "SELECT hash(i) AS h FROM range(10000000000) t(i) ORDER BY h",
  "a padded text": "SELECT length(rpad('x', 2000000000, 'y')) FROM range(100)",
  "a structure of a text":
    "SELECT json_structure('{\"a\":' || repeat('[', 900) || repeat(']', 900) || '}')",
};

const abandonedAtOnce = 13;
const unreadAtOnce = 24;
const abandonedAfterMs = 300;

async function attempt(reader: FlightReader, sql: string, patience: number): Promise<Attempt> {
  const startMs = performance.now();
  const late = new AbortController();
  const outcome = await Promise.race([
    read(reader, sql, late.signal),
    sleep(patience, "given up", { signal: late.signal }),
  ]);
  late.abort();
  return { outcome, ms: performance.now() - startMs };
}

async function read(reader: FlightReader, sql: string, late: AbortSignal): Promise<string> {
  try {
    const stream = await reader.open(sql);
    return await new Promise<string>((resolve, reject) => {
      stream.on("data", () => undefined);
      stream.on("end", () => {
        resolve("rows");
      });
      stream.on("error", reject);
      if (late.aborted) stream.cancel();
      late.addEventListener("abort", () => {
        stream.cancel();
      });
    });
  } catch (error) {
    return `status ${String((error as { readonly code?: number }).code ?? "none")}`;
  }
}

/** Opens streams of endless results, reads nothing of them, and lets them go after a while. */
async function leaveUnread(reader: FlightReader, forMs: number): Promise<Attempt[]> {
  const startMs = performance.now();
  const opened = await Promise.allSettled(
    Array.from({ length: unreadAtOnce }, async (_, i) => {
      const sql = `SELECT i, 'row ' || i AS text FROM range(${10 ** 9 + i}) t(i)`;
      const stream = await reader.open(sql);
      // The server may end it before the others are open.
      stream.on("error", () => undefined);
      return stream;
    }),
  );
  await sleep(forMs);
  return opened.map((one) => {
    if (one.status === "rejected") return { outcome: "refused", ms: performance.now() - startMs };
    one.value.cancel();
    one.value.resume();
    return { outcome: "left unread", ms: performance.now() - startMs };
  });
}

/** Every attack. */
export const attacks: readonly Attack[] = [
  ...Object.entries(statements).map(([name, sql]) => ({
    name,
    run: async (reader: FlightReader, patienceMs: number) => [
      await attempt(reader, sql, patienceMs),
    ],
  })),
  {
    name: "hashes that nobody waits for",
    run: (reader) =>
      Promise.all(
        Array.from({ length: abandonedAtOnce }, (_, i) =>
          attempt(reader, `SELECT ${i}, ${hashes} ${numbers}`, abandonedAfterMs),
        ),
      ),
  },
  { name: "streams that nobody reads", run: leaveUnread },
];
