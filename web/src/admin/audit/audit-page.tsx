/** The audit: who changed what, newest first; older entries come when asked for. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { ScrollText } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import type { AuditEntry } from "../../api/wire.js";
import { call } from "../../api/call.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { Button, Select } from "../../ui/controls/controls.js";
import { JsonTree } from "../../ui/json/json-tree.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { Facts, ListPage, textColumn, timeColumn, timeText } from "../list-page.js";
import { detailText } from "./audit-details.js";

const pageRows = 500;
const idOf = (entry: AuditEntry): string => String(entry.audit_id);

/** Known actions in words; others are shown as they are. */
const actions: Readonly<Record<string, string>> = {
  "key.mint": "minted the key",
  "key.revoke": "revoked the key",
  "audience.claim": "claimed the audience",
  "grant.create": "granted",
  "grant.delete": "took the grant",
  "group.create": "made the group",
  "group.delete": "deleted the group",
  "group.add_member": "added to the group",
  "group.remove_member": "took out of the group",
  "data_source.save": "saved the data source",
  "data_source.delete": "deleted the data source",
  "map.save": "saved the map",
  "map.delete": "deleted the map",
  "denial.add": "added the denial",
  "denial.remove": "removed the denial",
  "partitions.retire": "retired partitions of",
  "retention.set": "set the retention of",
  "retention.delete": "removed the retention of",
  "erasure.create": "asked for the erasure",
  "erasure.done": "ended the erasure",
  "erasure.failed": "failed at the erasure",
  "lake_check.create": "asked for the check",
  "lake_check.done": "ended the check",
  "lake_check.failed": "failed at the check",
};

function columnsOf(rows: readonly AuditEntry[]): readonly TableColumn[] {
  return [
    timeColumn(rows, "at", "Time", ({ at }) => at),
    textColumn(rows, "actor", "Who", ({ actor }) => actor, { width: 200 }),
    textColumn(rows, "action", "Did", ({ action }) => actions[action] ?? action, { width: 200, keep: true }),
    textColumn(rows, "target", "To", ({ target, details }) => nameOf(target, details), { width: 280, keep: true }),
    textColumn(rows, "details", "Details", ({ details }) => detailText(details), { width: 360, mono: true }),
  ];
}

/** A key's name says more than its id. */
function nameOf(target: string, { name }: AuditEntry["details"]): string {
  return typeof name === "string" ? `${name} (${target.slice(0, 8)})` : target;
}

export default function AuditPage(): ReactElement {
  const action = textOf(useSearchParameters()["action"]);
  const change = useChangeSearch();
  const query = useInfiniteQuery({
    queryKey: ["admin", "audit", action],
    initialPageParam: null as number | null,
    queryFn: ({ signal, pageParam }) =>
      call<readonly AuditEntry[]>("api/audit", { query: { limit: pageRows, before: pageParam, action }, signal }),
    getNextPageParam: (last) => (last.length < pageRows ? null : (last.at(-1)?.audit_id ?? null)),
    staleTime: 0,
  });
  const entries = useMemo(() => query.data?.pages.flat(), [query.data]);
  const known =
    action === null || Object.hasOwn(actions, action) ? Object.keys(actions) : [...Object.keys(actions), action];
  const keep = useMemo(() => (action === null ? undefined : (entry: AuditEntry) => entry.action === action), [action]);
  return (
    <ListPage
      // A filter knows no others.
      noun={query.hasNextPage ? "newest entries" : "entries"}
      intro="Every change of keys, grants, groups, data sources, maps, denials and what is kept. Entries are never changed."
      query={{ data: entries, error: query.error, isFetching: query.isFetching, refetch: query.refetch }}
      idOf={idOf}
      columns={columnsOf}
      {...(keep === undefined ? {} : { keep })}
      filters={
        <Select
          label="What was done"
          value={action ?? ""}
          options={[
            { value: "", label: "Every action" },
            ...known.map((each) => ({ value: each, label: actions[each] ?? each })),
          ]}
          onChange={(next) => change({ action: next === "" ? undefined : next })}
        />
      }
      empty={{
        icon: <ScrollText />,
        title: "Nothing was changed yet",
        text: "The first key that is minted is the first entry.",
      }}
      add={null}
      panel={(entry) => ({
        title: actions[entry.action] ?? entry.action,
        body: (
          <>
            <Facts
              facts={[
                ["Time", timeText(entry.at)],
                ["Who", entry.actor],
                ["Action", entry.action],
                ["Target", entry.target],
                ["No.", String(entry.audit_id)],
              ]}
            />
            <section className={css.section} aria-label="Details">
              <h3>Details</h3>
              <JsonTree value={entry.details} />
            </section>
          </>
        ),
      })}
      foot={
        query.hasNextPage ? (
          <div className={css.foot}>
            <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              Older entries
            </Button>
          </div>
        ) : null
      }
    />
  );
}
