/** DuckDB's errors for the caller: its message without anything about this machine. */
import { isRefused } from "../../lake/bad-objects.js";
import { ServiceError } from "../../runtime/errors.js";
import { quoteText } from "../../runtime/text/sql-text.js";
import { withoutAdvice } from "../gate/syntax-error.js";
import { comparedTime } from "../sql/file-source.js";

/** Kinds of DuckDB errors that are about the query; their text helps its author. */
const callersFault =
  /^(?:Binder|Parser|Syntax|Catalog|Conversion|Invalid Input|Out of Range|Mismatch Type|Type|Decimal|Invalid Type|Divide by Zero|Not implemented|Not Implemented|Sequence|Dependency|Constraint|Parameter Not Resolved|Parameter Not Allowed|Expression|Executor) Error:/iu;

const aboutInput = /^Invalid Input Error:/iu;
/** DuckDB's words for most damage in a Parquet file. They name no file. */
const damaged = /^Invalid Error:/iu;
const outOfMemory = /^Out of Memory Error:/iu;
/** A file that cannot grow, which only spilling has: a query writes no other. */
const diskFull = /^IO Error:.*(?:No space left on device|Disk quota exceeded)/isu;
const interrupted = /^INTERRUPT Error:/iu;
const ownDefect = /^(?:INTERNAL|FATAL) Error:/iu;

/** What a caller is told of a defect of DuckDB's, whose own words are about its insides. */
export const engineDefect =
  "the query engine met an internal error of its own in this statement; rephrase the statement";

/** What a caller is told of an object that the engine cannot find or read, whose name is no business of theirs. */
const unreadableObject =
  "an object of the lake is missing or cannot be read; the log of this server names it, and telemetry lake check --deep finds all";

/** What a caller is told when the directory below `TMPDIR` takes no more. */
const fullDisk =
  "the disk that queries spill to is full; narrow the query by time, or try again when its server has room below TMPDIR";

/** What hides a path of this machine in text that goes to a caller. */
export type Scrubber = (text: string) => string;

/** A path of an object. It begins where no path is under way: else a long one without an end would be tried at each part. */
const anyObject = String.raw`(?<![\w.=/-])[\w.=-]*/+(?:[\w.=-]+/+)+[\w.=-]+\.parquet`;

/** Replaces the given directories and everything below them, and any other path of an object. */
export function createScrubber(directories: readonly string[]): Scrubber {
  const escaped = directories
    .filter((directory) => directory.length > 1)
    .map((directory) => directory.replaceAll(/[.*+?^${}()|[\]\\]/gu, String.raw`\$&`));
  const known = new RegExp(String.raw`(?:${[...escaped, anyObject].join("|")})[^\s"',)\]]*`, "gu");
  return (text) => text.replaceAll(known, "<file>");
}

/**
 * The error a caller gets for one of DuckDB's. Errors about the query are BAD_REQUEST with DuckDB's words;
 * an interrupted query is CANCELLED; one that needs more memory than it may have is PAYLOAD_TOO_LARGE
 * (RESOURCE_EXHAUSTED); a defect of DuckDB's, an object that cannot be read, and a full disk are INTERNAL and say so;
 * anything else is INTERNAL and says nothing.
 */
export function queryError(error: unknown, scrub: Scrubber): ServiceError {
  if (error instanceof ServiceError) {
    return error;
  }
  const message = error instanceof Error ? error.message : String(error);
  if (interrupted.test(message)) {
    return new ServiceError("CANCELLED");
  }
  if (outOfMemory.test(message)) {
    return memoryExceeded(error);
  }
  if (callersFault.test(message)) {
    const told = withoutAdvice(withoutRewrites(message));
    const shown = scrub(told);
    // An object that is damaged is an invalid input, too, but not the caller's.
    if (!aboutInput.test(message) || shown === told) {
      return new ServiceError("BAD_REQUEST", shown, { cause: error });
    }
    return new ServiceError("INTERNAL", undefined, { cause: error, shown: unreadableObject });
  }
  const isUnreadable = damaged.test(message) || isRefused(error);
  const shown = ownDefect.test(message)
    ? engineDefect
    : diskFull.test(message)
      ? fullDisk
      : isUnreadable
        ? unreadableObject
        : null;
  return new ServiceError("INTERNAL", undefined, { cause: error, ...(shown === null ? {} : { shown }) });
}

/**
 * DuckDB's words without names of ours, and without a line that it quotes with such names in it: the caller wrote another.
 * A text that is compared with `time` and is none is told as such: DuckDB speaks of its number.
 */
function withoutRewrites(message: string): string {
  const [whole = "", line] = message.split(/\n\n(?=LINE \d+: )/u);
  const words = whole.replace(/ when casting from source column svc_\w+/u, "");
  if (line === undefined || !/\bsvc_/u.test(line)) {
    return line === undefined ? words : `${words}\n\n${line}`;
  }
  // Who has such words in a text again and again would have the end looked for after each.
  const time = words.endsWith("' to INT64")
    ? /Could not convert string '(.*)' to INT64$/su.exec(words)?.[1]
    : undefined;
  const isCompared = time !== undefined && line.includes(comparedTime) && line.includes(quoteText(time));
  return isCompared
    ? `Conversion Error: time is compared with '${time}', which is no time between 1677-09-22 and 2262-04-11`
    : words;
}

/** A query that needs more memory than it may have: RESOURCE_EXHAUSTED in gRPC. */
export function memoryExceeded(cause?: unknown): ServiceError {
  return new ServiceError(
    "PAYLOAD_TOO_LARGE",
    "The query needs more memory than it may have; narrow it by time, select fewer columns, cut long texts, as by left(msg, 1000), or aggregate more coarsely.",
    { cause },
  );
}
