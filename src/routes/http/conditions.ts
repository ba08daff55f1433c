/** What a request asks of an object: a range of it (RFC 9110 section 14), under conditions (section 13). */

/** Fields of a request; the empty string for one that is missing. */
export interface AskedFields {
  readonly range: string;
  readonly ifRange: string;
  readonly ifMatch: string;
  readonly ifNoneMatch: string;
}

/** What is to be answered: bytes from `start` to `end`, which is not included. */
type Selection =
  | { readonly status: 200 | 206; readonly start: number; readonly end: number }
  | { readonly status: 304 | 412 | 416 };

/**
 * Selects what to send of an object of so many bytes.
 * @param etag strong, with its quotes
 * @param ranges whether the method has ranges: GET does, HEAD does not
 */
export function select(asked: AskedFields, etag: string, bytes: number, ranges: boolean): Selection {
  if (asked.ifMatch !== "" && !names(asked.ifMatch, etag)) {
    return { status: 412 };
  }
  if (hasAlready(asked.ifNoneMatch, etag)) {
    return { status: 304 };
  }
  const whole = { status: 200, start: 0, end: bytes } as const;
  if (!ranges || asked.range === "" || (asked.ifRange !== "" && asked.ifRange !== etag)) {
    return whole;
  }
  const range = parseRange(asked.range, bytes);
  if (range === null) {
    return whole;
  }
  return range === "unsatisfiable" ? { status: 416 } : { status: 206, ...range };
}

/** Whether the client has it, by its `If-None-Match`: a weak comparison (RFC 9110 section 13.1.2). @param etag strong */
export function hasAlready(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch !== "" && names(ifNoneMatch.replaceAll(/(^|[\s,])W\//gu, "$1"), etag);
}

/** Whether a list of entity tags, or `*`, names this one. */
function names(list: string, etag: string): boolean {
  return list.trim() === "*" || list.split(",").some((tag) => tag.trim() === etag);
}

/**
 * A single range of bytes. Null: several, another unit, or no range at all, which are ignored (RFC 9110 section 14.2).
 */
export function parseRange(
  field: string,
  bytes: number,
): { readonly start: number; readonly end: number } | "unsatisfiable" | null {
  const said = /^bytes[ \t]*=[ \t]*(?<first>\d*)-(?<last>\d*)[ \t]*$/iu.exec(field)?.groups;
  const [first = "", last = ""] = [said?.["first"], said?.["last"]];
  if (said === undefined || (first === "" && last === "")) {
    return null;
  }
  if (first === "") {
    const start = Math.max(0, bytes - Number(last));
    return start < bytes ? { start, end: bytes } : "unsatisfiable";
  }
  const [start, end] = [Number(first), last === "" ? bytes : Math.min(Number(last) + 1, bytes)];
  if (last !== "" && Number(last) < start) {
    return null;
  }
  return start < bytes ? { start, end } : "unsatisfiable";
}
