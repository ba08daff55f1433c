/** Usage: requests, bytes and records of ingestion keys and audiences over time. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChartColumn, X } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { call } from "../../api/call.js";
import { ApiError } from "../../api/error.js";
import { usePerson } from "../../api/session.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { TimeChart } from "../../ui/chart/time-chart.js";
import { Button, Select } from "../../ui/controls/controls.js";
import { capital, formatBytes, formatNumber, formatTime } from "../../ui/format.js";
import { EmptyState, LoadingLine, Skeleton } from "../../ui/states.js";
import { DataTable } from "../../ui/table/data-table.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import admin from "../admin.module.css";
import type { UsageRow } from "../../api/wire.js";
import { serverNow } from "../../api/server-clock.js";
import { AdminError } from "../form.js";
import { numberColumn, textColumn, timeColumn } from "../list-page.js";
import { chartOf, sumsOf, type UsageBy, type UsageSum, type Use } from "./usage-data.js";
import css from "./usage-page.module.css";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const spans = [
  { value: "24h", label: "Last 24 hours", ms: dayMs },
  { value: "7d", label: "Last 7 days", ms: 7 * dayMs },
  { value: "30d", label: "Last 30 days", ms: 30 * dayMs },
  { value: "90d", label: "Last 90 days", ms: 90 * dayMs },
  { value: "365d", label: "Last 365 days", ms: 365 * dayMs },
] as const;
const sumOfAll = { step: "all", ms: null } as const;
/** From fine to coarse. */
const steps = [{ step: "hour", ms: hourMs }, { step: "day", ms: dayMs }, sumOfAll] as const;
const measures = [
  { value: "bytes", label: "Bytes" },
  { value: "requests", label: "Requests" },
  { value: "records", label: "Records" },
] as const;

interface Answer {
  readonly rows: readonly UsageRow[];
  /** Length of what a row sums up; null: everything since the begin. */
  readonly stepMs: number | null;
  readonly beginMs: number;
  readonly endMs: number;
}

export default function UsagePage(): ReactElement {
  const { isAdmin } = usePerson();
  const search = useSearchParameters();
  const change = useChangeSearch();
  const span = spans.find(({ value }) => value === textOf(search["span"])) ?? spans[1];
  const measure: keyof Use = measures.find(({ value }) => value === textOf(search["measure"]))?.value ?? "bytes";
  const by: UsageBy = textOf(search["by"]) === "audience" ? "audience" : "key";
  const key = textOf(search["key"]);
  const audience = textOf(search["of"]);
  const query = useQuery({
    queryKey: ["admin", "usage", span.value, key, audience],
    queryFn: async ({ signal }): Promise<Answer> => {
      const endMs = serverNow();
      const beginMs = endMs - span.ms;
      const [begin, end] = [new Date(beginMs).toISOString(), new Date(endMs).toISOString()];
      for (let at = span.ms > 7 * dayMs ? 1 : 0; ; at++) {
        const { step, ms: stepMs } = steps[at] ?? sumOfAll;
        try {
          const query = { begin, end, step, key_id: key, audience };
          return { rows: await call<readonly UsageRow[]>("api/usage", { query, signal }), stepMs, beginMs, endMs };
        } catch (error) {
          // Of so many keys an answer has no room for each hour.
          if (stepMs === null || !(error instanceof ApiError && error.code === "BAD_REQUEST")) {
            throw error;
          }
        }
      }
    },
    placeholderData: (before) => before,
  });
  const { data } = query;
  const filter = key ?? audience;
  const keyName = key === null ? null : (data?.rows.find((row) => row.key_id === key)?.name ?? key.slice(0, 8));
  const narrowed = key === null ? `Audience ${audience ?? ""}` : `Key ${keyName ?? ""}`;
  return (
    <div className={css.page}>
      <div className={admin.head}>
        <p className={admin.intro}>
          What was received with ingestion keys
          {isAdmin ? "" : "; of those that you minted"}. Sums of whole hours and days in UTC, which grow within a minute
          of a request.
        </p>
        <div className={admin.tools}>
          <Select
            label="Time"
            value={span.value}
            options={spans}
            onChange={(next) => change({ span: next === "7d" ? undefined : next })}
          />
          <Select
            label="Measure"
            value={measure}
            options={measures}
            onChange={(next) => change({ measure: next === "bytes" ? undefined : next })}
          />
          <Select
            label="Group by"
            value={by}
            options={[
              { value: "key", label: "By key" },
              { value: "audience", label: "By audience" },
            ]}
            onChange={(next) => change({ by: next === "key" ? undefined : next, sort: undefined })}
          />
          {filter === null ? null : (
            <Button
              onClick={() => change({ key: undefined, of: undefined })}
              aria-label={`${narrowed}: show all keys and audiences`}
            >
              {narrowed} <X />
            </Button>
          )}
        </div>
      </div>
      <LoadingLine running={query.isFetching} />
      {query.error === null ? null : (
        <div className={admin.failed}>
          <AdminError error={query.error} title="The usage could not be read" onRetry={() => void query.refetch()} />
        </div>
      )}
      {data === undefined ? (
        query.error === null ? (
          <Skeleton />
        ) : null
      ) : data.rows.length === 0 ? (
        <EmptyState
          icon={<ChartColumn />}
          stale={query.isPlaceholderData}
          title={filter === null ? "No key was used in this time" : "It was not used in this time"}
          actions={
            filter === null ? (
              <Link to="/admin/ingestion-keys">Mint a key</Link>
            ) : (
              <Button onClick={() => change({ key: undefined, of: undefined })}>Show all keys</Button>
            )
          }
        >
          {filter === null
            ? "Mint a key and have a service send with it. Its use is here a minute later."
            : "Take a longer time, or look at all keys."}
        </EmptyState>
      ) : (
        <UsageParts
          answer={data}
          by={by}
          measure={measure}
          stale={query.isPlaceholderData}
          onNarrow={(sum) => change(by === "key" ? { key: sum.id } : { of: sum.id, by: undefined })}
        />
      )}
    </div>
  );
}

function UsageParts({
  answer,
  by,
  measure,
  stale,
  onNarrow,
}: {
  readonly answer: Answer;
  readonly by: UsageBy;
  readonly measure: keyof Use;
  readonly stale: boolean;
  readonly onNarrow: (sum: UsageSum) => void;
}): ReactElement {
  const { rows, stepMs, beginMs, endMs } = answer;
  const [state, setState] = useTableState();
  const sums = useMemo(() => sumsOf(rows, by, measure), [rows, by, measure]);
  const data = useMemo(
    () => (stepMs === null ? null : chartOf(rows, sums, { by, measure, beginMs, endMs, stepMs })),
    [rows, sums, by, measure, beginMs, endMs, stepMs],
  );
  const columns = useMemo(() => columnsOf(sums, by), [sums, by]);
  const range = useMemo(() => ({ beginMs: data?.times[0] ?? beginMs, endMs }), [data, beginMs, endMs]);
  const total = sums.reduce((sum, each) => sum + each[measure], 0);
  const step = stepMs === dayMs ? "day" : "hour";
  return (
    <>
      <div className={css.chart}>
        <p className={css.total}>
          <strong>{measure === "bytes" ? formatBytes(total) : formatNumber(total)}</strong>{" "}
          {measure === "bytes" ? "" : `${measure} `}since {formatTime(beginMs, { digits: 0 })}
        </p>
        {data === null ? (
          <p className={admin.intro}>
            Too many keys to show when: take a shorter time, or choose {by === "key" ? "a key" : "an audience"} below.
          </p>
        ) : (
          <TimeChart
            title={`${capital(measure)} per ${step} by ${by}`}
            data={data}
            range={range}
            unit={measure === "bytes" ? "bytes" : "number"}
            kind="bars"
            height={200}
            legend={false}
            stale={stale}
          />
        )}
      </div>
      <div className={css.table}>
        <DataTable
          label={by === "key" ? "Usage by key" : "Usage by audience"}
          columns={columns}
          rows={sums.length}
          version={sums}
          state={state}
          onState={setState}
          stale={stale}
          onSelect={(row) => {
            const sum = row === null ? undefined : sums[row];
            if (sum !== undefined) {
              onNarrow(sum);
            }
          }}
        />
      </div>
    </>
  );
}

function columnsOf(sums: readonly UsageSum[], by: UsageBy): readonly TableColumn[] {
  return [
    ...(by === "key" ? [textColumn(sums, "name", "Key", ({ name }) => name, { width: 220 })] : []),
    textColumn(sums, "audience", "Audience", ({ audience }) => audience, { width: 160 }),
    numberColumn(sums, "requests", "Requests", ({ requests }) => requests),
    numberColumn(sums, "bytes", "Bytes", ({ bytes }) => bytes, formatBytes),
    numberColumn(sums, "records", "Records", ({ records }) => records),
    timeColumn(sums, "last", "Last", ({ last }) => last),
  ];
}
