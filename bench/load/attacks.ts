/** Statements that are meant to hurt a server, and readers that are. Nobody expects rows from them. */
import { setTimeout as sleep } from "node:timers/promises";

import type { FlightReader } from "./flight-reader.js";

/** What became of one attempt. */
interface Attempt {
  /** `rows`, the name of a gRPC status as a number, or `given up` by the attacker. */
  readonly outcome: string;
  readonly ms: number;
}

/** What has to become of every attempt. */
interface Wanted {
  readonly words: string;
  readonly outcome: RegExp;
}

/** One way to hurt. */
export interface Attack {
  /** What it is of: a defect that was found once, or none. */
  readonly point: string;
  readonly name: string;
  readonly wanted: Wanted;
  /** Never throws. @param patienceMs most time that the attacker waits for an answer, or leaves streams unread */
  run(reader: FlightReader, patienceMs: number): Promise<Attempt[]>;
}

const numbers =
  "FROM range(2048) r(i), (SELECT string_agg(j, chr(44)) s, string_agg(j, chr(45)) t FROM range(1000000) g(j))";
const hashes = Array.from({ length: 10 }, (_, n) => `max(sha256(CASE WHEN i % ${n + 2} = 0 THEN s ELSE t END))`).join(
  ", ",
);

const crash: Wanted = { words: "INTERNAL", outcome: /^status 13$/u };
const noMemory: Wanted = { words: "RESOURCE_EXHAUSTED", outcome: /^status 8$/u };
const endless: Wanted = {
  words: "no answer, or RESOURCE_EXHAUSTED",
  outcome: /^(?:given up|status 8)$/u,
};
const refused: Wanted = { words: "INVALID_ARGUMENT", outcome: /^status 3$/u };

type Statement = readonly [point: string, name: string, wanted: Wanted, sql: string];

const statements: readonly Statement[] = [
  ["S1", "lead before all rows", crash, "SELECT lead(1, -9223372036854775808) OVER ()"],
  ["S1", "lag before all rows", crash, "SELECT lag(1, -9223372036854775808) OVER ()"],
  [
    "S2",
    "a list for each row",
    noMemory,
    "SELECT max(len(list_append(l, i))) FROM range(2048) t(i), (SELECT list(j) l FROM range(1000000) t(j))",
  ],
  [
    "S2",
    "a text for each row",
    noMemory,
    "SELECT max(length(upper(s || i))) FROM range(2048) t(i), (SELECT string_agg(j, '') s FROM range(1000000) t(j))",
  ],
  ["S3", "hashes of long texts", endless, `SELECT ${hashes} ${numbers}`],
  ["S5", "a file by its path", refused, "SELECT * FROM read_parquet('/lake/**/*.parquet')"],
  ["S5", "a file as a table", refused, "SELECT * FROM '/lake/log_entries/x.parquet'"],
  ["S5", "names of files", refused, "SELECT * FROM glob('/lake/**')"],
  [
    "-",
    "a cross join",
    endless,
    "SELECT count(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range + b.range = -1",
  ],
  ["-", "a sort of everything", endless, "SELECT hash(i) AS h FROM range(10000000000) t(i) ORDER BY h"],
  ["-", "a padded text", endless, "SELECT length(rpad('x', 2000000000, 'y')) FROM range(100)"],
  [
    "-",
    "a structure of a text",
    { words: "rows, or INVALID_ARGUMENT", outcome: /^(?:rows|status 3)$/u },
    "SELECT json_structure('{\"a\":' || repeat('[', 900) || repeat(']', 900) || '}')",
  ],
  [
    "-",
    "a long list of numbers",
    { words: "rows", outcome: /^rows$/u },
    `SELECT 1 AS one WHERE 1 IN (${"0,".repeat(150_000)}0)`,
  ],
];

const abandonedAtOnce = 13;
const unreadAtOnce = 24;
const abandonedAfterMs = 300;
const unreadMs = 2000;

let varied = 0;

/** The statement in another shape: one that has ended engines before is refused, whatever its constants are. */
export function vary(sql: string): string {
  return `SELECT * FROM (${sql}) AS shape_${varied++}`;
}

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
    const stream = await reader.open(sql, {}, late);
    return await new Promise<string>((resolve, reject) => {
      stream.on("data", () => undefined);
      stream.on("end", () => {
        resolve("rows");
      });
      stream.on("error", reject);
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
    if (one.status === "rejected") {
      return { outcome: "refused", ms: performance.now() - startMs };
    }
    one.value.cancel();
    one.value.resume();
    return { outcome: "left unread", ms: performance.now() - startMs };
  });
}

/** Every attack that needs nothing but a connection. */
export const attacks: readonly Attack[] = [
  ...statements.map(([point, name, wanted, sql]) => ({
    point,
    name,
    wanted,
    run: async (reader: FlightReader, patienceMs: number) => [
      await attempt(reader, vary(sql), wanted === endless ? Math.min(patienceMs, 1000) : patienceMs),
    ],
  })),
  {
    point: "S1",
    name: "the same statement over and over",
    wanted: { words: "INTERNAL, then RESOURCE_EXHAUSTED", outcome: /^status (?:8|13)$/u },
    run: async (reader, patienceMs) => {
      const sql = "SELECT lead(2, -9223372036854775808) OVER ()";
      return [await attempt(reader, sql, patienceMs), await attempt(reader, sql, patienceMs)];
    },
  },
  {
    point: "S3",
    name: "hashes that nobody waits for",
    wanted: endless,
    run: (reader) =>
      Promise.all(
        Array.from({ length: abandonedAtOnce }, (_, i) =>
          attempt(reader, vary(`SELECT ${i}, ${hashes} ${numbers}`), abandonedAfterMs),
        ),
      ),
  },
  {
    point: "S4",
    name: "streams that nobody reads",
    wanted: { words: "no harm to others", outcome: /^(?:left unread|refused)$/u },
    run: (reader, patienceMs) => leaveUnread(reader, Math.min(patienceMs, unreadMs)),
  },
];
