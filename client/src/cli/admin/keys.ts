/** `telemetry keys`: mint, list and revoke API keys. */
import { member } from "../../shared/json-member.js";
import { UsageError } from "../context.js";
import type { RowColumn } from "../formats/rows.js";
import { type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { pagesOf } from "./pages.js";
import { routes } from "./routes.js";

const tables = {
  ingestion: {
    mint: routes.mintIngestionKey,
    list: routes.listIngestionKeys,
    revoke: routes.revokeIngestionKey,
  },
  analytics: {
    mint: routes.mintAnalyticsKey,
    list: routes.listAnalyticsKeys,
    revoke: routes.revokeAnalyticsKey,
  },
} as const;

const usage = (title: string, name: string): RowColumn => ({
  title,
  right: true,
  value: (row) => member(row["usage_24h"], name) ?? null,
});

const columns: readonly RowColumn[] = [
  column("key_id", "key_id"),
  column("name", "name", { shrinks: true }),
  column("audience", "audience", { shrinks: true }),
  timeColumn("created", "created_at"),
  column("by", "created_by", { shrinks: true }),
  timeColumn("last used", "last_used_at"),
  timeColumn("revoked", "revoked_at"),
  usage("requests 24h", "requests"),
  usage("bytes 24h", "bytes"),
  usage("records 24h", "records"),
];
/** Analytics keys have no audience, and their use is not counted. */
const analyticsColumns = columns.filter(({ title }) => !/^audience$|24h$/.test(title));

/** The actions of `telemetry keys`. */
export const keyActions: readonly AdminAction[] = [
  {
    name: "list",
    parameters: ["ingestion|analytics"],
    flags: ["limit", "all", "offset", "live"],
    help: "lists keys, newest first, with the use of ingestion keys in the last 24 hours",
    call([table = ""], { live, ...values }) {
      const { list } = tableOf(table);
      return {
        request: requestOf(list, {
          query: {
            include_revoked: live ? false : null,
            include_usage: table === "ingestion" ? true : null,
          },
        }),
        pages: pagesOf(values, ["key_id"]),
        shown: { kind: "rows", columns: table === "analytics" ? analyticsColumns : columns },
      };
    },
  },
  {
    name: "mint",
    parameters: ["ingestion|analytics"],
    flags: ["name", "audience", "userAudience"],
    help: "mints a key and prints it, only this once",
    call([table = ""], { name, audience, userAudience }) {
      const { mint } = tableOf(table);
      if (name === null) {
        throw new UsageError("--name is missing: what the key is for");
      }
      if (table === "analytics" && (audience !== null || userAudience !== null)) {
        throw new UsageError(
          "an analytics key has no audience; grant it what it may read: telemetry grants add <audience> read key:<key_id>",
        );
      }
      return {
        request: requestOf(mint, {
          body: {
            name,
            ...(audience === null ? {} : { audience }),
            ...(userAudience === null ? {} : { user_audience: userAudience }),
          },
        }),
        shown: {
          kind: "fields-and-note",
          note: "the key is shown only once",
        },
      };
    },
  },
  {
    name: "revoke",
    parameters: ["ingestion|analytics", "key_id"],
    flags: [],
    help: "revokes a key; servers may accept it for a minute more",
    call([table = "", keyId = ""]) {
      const { revoke } = tableOf(table);
      return {
        request: requestOf(revoke, { path: { key_id: keyId } }),
        shown: { kind: "fields" },
      };
    },
  },
];

function tableOf(name: string): (typeof tables)[keyof typeof tables] {
  if (name === "ingestion" || name === "analytics") {
    return tables[name];
  }
  throw new UsageError(`there are ingestion and analytics keys; got ${JSON.stringify(name)}`);
}
