/** `telemetry erase`: takes rows of somebody or something out of the lake. */
import { formatRfc3339Ns } from "../../shared/rfc3339.js";
import { UsageError } from "../context.js";
import { isObject } from "../../shared/is-object.js";
import { parseTime } from "../time-range.js";
import { type ActionCall, type AdminAction, type Shown, column, requestOf, timeColumn } from "./action.js";
import { pagesOf } from "./pages.js";
import { routes } from "./routes.js";

/** An erasure in the words of the flags that ask for one. */
const shown: Shown = { kind: "fields", rewritten: { where: whereText, begin: timeText, end: timeText } };

/** The actions of `telemetry erase`. */
export const eraseActions: readonly AdminAction[] = [
  {
    name: "run",
    isDefault: true,
    parameters: ["[key=value]"],
    flags: ["audience", "where", "begin", "end", "detach"],
    help: "erases rows of an audience, waits for the end and says how many went",
    call([attribute], { audience, where, begin, end, detach }): ActionCall {
      if (audience === null || where === null) {
        throw new UsageError("--audience and --where are missing: whose rows, and which");
      }
      const body = {
        audience,
        where: whereOf(attribute === undefined ? where : `${where} ${attribute}`),
        ...(begin === null ? {} : { begin: timeOf("begin", begin) }),
        ...(end === null ? {} : { end: timeOf("end", end) }),
      };
      return {
        request: requestOf(routes.createErasure, { body }),
        ...(detach ? {} : { follow: { route: routes.getErasure, id: "erasure_id" } }),
        shown,
      };
    },
  },
  {
    name: "list",
    parameters: [],
    flags: ["limit", "all", "offset"],
    help: "lists erasures, newest first",
    call: (_, values) => ({
      request: requestOf(routes.listErasures),
      pages: pagesOf(values, ["erasure_id"]),
      shown: {
        kind: "rows",
        columns: [
          column("erasure_id", "erasure_id"),
          column("audience", "audience", { shrinks: true }),
          { title: "where", shrinks: true, value: (row) => whereText(row["where"]) },
          column("state", "state"),
          column("rows", "rows_removed", { right: true }),
          timeColumn("asked", "created_at"),
          column("by", "created_by", { shrinks: true }),
        ],
      },
    }),
  },
  {
    name: "show",
    parameters: ["erasure_id"],
    flags: [],
    help: "shows how an erasure stands",
    call: ([id = ""]) => ({ request: requestOf(routes.getErasure, { path: { id } }), shown }),
  },
];

/** `service=shop`, `process=<id>`, `trace=<id>` or `attribute key=value`. */
function whereOf(text: string): Readonly<Record<string, unknown>> {
  const [, kind = "", value = ""] = /^(service|process|trace)=(.+)$/su.exec(text) ?? [];
  if (kind !== "") {
    return { [kind]: value };
  }
  const [, key, attribute] = /^attribute[ :]([^=]+)=(.*)$/su.exec(text) ?? [];
  if (key === undefined || attribute === undefined) {
    throw new UsageError(
      `--where takes service=<name>, process=<process_id>, trace=<trace_id> or attribute <key>=<value>; got ${JSON.stringify(text)}`,
    );
  }
  return { attribute: { key, value: attribute } };
}

/** The way back from {@link whereOf}. */
function whereText(where: unknown): unknown {
  const attribute = isObject(where) ? where["attribute"] : null;
  return isObject(attribute) ? `attribute ${String(attribute["key"])}=${String(attribute["value"])}` : where;
}

/** Nanoseconds since 1970 as a time. */
function timeText(ns: unknown): unknown {
  return typeof ns === "string" ? formatRfc3339Ns(BigInt(ns)) : ns;
}

function timeOf(flag: string, text: string): string {
  const ns = parseTime(text, Date.now());
  if (ns === null) {
    throw new UsageError(
      `--${flag} takes a time such as 2026-01-31T12:00:00Z, 2026-01-31 or -30d; got ${JSON.stringify(text)}`,
    );
  }
  return String(ns);
}
