/** `telemetry usage`: what ingestion keys were used for. */
import { UsageError } from "../context.js";
import { parseTime } from "../time-range.js";
import { type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { routes } from "./routes.js";

/** The one action of `telemetry usage`, whose name may be left out. */
export const usageActions: readonly AdminAction[] = [
  {
    name: "list",
    parameters: [],
    flags: ["keyId", "audience", "begin", "end", "step"],
    help: "sums up requests, bytes and records by key and hour; of all keys for administrators, else of your own",
    call: (_, { keyId, audience, begin, end, step }) => ({
      request: requestOf(routes.listUsage, {
        query: { key_id: keyId, audience, begin: timeOf("begin", begin), end: timeOf("end", end), step },
      }),
      shown: {
        kind: "rows",
        columns: [
          timeColumn("at", "at"),
          column("key", "name", { shrinks: true }),
          column("audience", "audience", { shrinks: true }),
          column("requests", "requests", { right: true }),
          column("bytes", "bytes", { right: true }),
          column("records", "records", { right: true }),
        ],
      },
    }),
  },
];

/** Nanoseconds since the epoch. @throws UsageError */
function timeOf(name: string, text: string | null): string | null {
  if (text === null) {
    return null;
  }
  const time = parseTime(text, Date.now());
  if (time === null) {
    throw new UsageError(`--${name} takes an RFC 3339 time, a date, now, or an offset like -1h`);
  }
  return time.toString();
}
