/** Services, one a row: how many requests, how many fail, how long they take, each with how it went. */
import { Link } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";

import { serviceAddress } from "../addresses.js";
import { seriesColour } from "../../ui/colours.js";
import { formatMilliseconds, formatNumber, formatPercent, formatRate } from "../../ui/format.js";
import { Sparkline } from "./sparkline.js";
import { DataTable } from "../../ui/table/data-table.js";
import { figures, type TableColumn } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import { errorShare, type ServiceRow } from "./service-data.js";
import { ErrorShare } from "./error-share.js";

export function ServiceList({
  services,
  seconds,
  stale,
  onOpen,
}: {
  readonly services: readonly ServiceRow[];
  /** Of the time range. */
  readonly seconds: number;
  readonly stale: boolean;
  readonly onOpen: (name: string) => void;
}): ReactElement {
  const [state, setState] = useTableState();
  const columns = useMemo(() => columnsOf(services, seconds), [services, seconds]);
  return (
    <DataTable
      label="Services"
      columns={columns}
      rows={services.length}
      version={services}
      state={state}
      onState={setState}
      onSelect={(row) => {
        const name = row === null ? undefined : services[row]?.name;
        if (name !== undefined) {
          onOpen(name);
        }
      }}
      stale={stale}
    />
  );
}

function columnsOf(services: readonly ServiceRow[], seconds: number): readonly TableColumn[] {
  const milliseconds = (value: number): string | null => (Number.isNaN(value) ? null : formatMilliseconds(value));
  const number = (
    id: string,
    title: string,
    of: (service: ServiceRow) => number,
    text: (value: number) => string | null,
    width = 84,
  ): TableColumn => {
    const valueAt = (row: number): number => {
      const service = services[row];
      return service === undefined ? Number.NaN : of(service);
    };
    return {
      id,
      title,
      width,
      ...figures,
      text: (row) => (Number.isNaN(valueAt(row)) ? null : text(valueAt(row))),
      sortBy: (row) => (Number.isNaN(valueAt(row)) ? null : valueAt(row)),
    };
  };
  const line = (
    id: string,
    title: string,
    of: (service: ServiceRow) => Float64Array,
    colour?: string,
  ): TableColumn => ({
    id,
    title,
    width: 104,
    text: () => "",
    hint: () => null,
    cell: (row) => {
      const service = services[row];
      return service === undefined || service.requests === 0 ? null : (
        <Sparkline values={of(service)} colour={colour ?? seriesColour(service.name)} />
      );
    },
  });
  const hasRequests = (of: (service: ServiceRow) => number) => (service: ServiceRow) =>
    service.requests === 0 ? Number.NaN : of(service);
  const errors = { ...number("errors", "Errors", errorShare, formatPercent, 76), keep: true };
  return [
    {
      id: "service",
      title: "Service",
      width: 170,
      text: (row) => services[row]?.name ?? null,
      cell: (row) => {
        const name = services[row]?.name ?? "";
        return (
          <Link {...serviceAddress(name)} tabIndex={-1} onClick={(event) => event.stopPropagation()}>
            {name}
          </Link>
        );
      },
      sortBy: (row) => services[row]?.name ?? null,
    },
    {
      ...number(
        "rate",
        "Rate",
        hasRequests(({ requests }) => requests / seconds),
        formatRate,
      ),
      keep: true,
      brief: { width: 72, text: (whole) => whole.replace("/min", "/m") },
    },
    line("rate-line", "Requests", ({ requestsOverTime }) => requestsOverTime),
    {
      ...errors,
      cell: (row) => {
        const service = services[row];
        return service === undefined || service.requests === 0 ? null : <ErrorShare share={errorShare(service)} />;
      },
    },
    line("errors-line", "Failed", ({ errorsOverTime }) => errorsOverTime, "var(--level-error)"),
    number("p50", "p50", ({ p50 }) => p50, milliseconds),
    { ...number("p95", "p95", ({ p95 }) => p95, milliseconds), keep: true },
    line("p95-line", "p95 over time", ({ p95OverTime }) => p95OverTime),
    ...(["traces", "logs", "metrics"] as const).map((signal) =>
      number(
        signal,
        { traces: "Spans", logs: "Log records", metrics: "Points" }[signal],
        ({ rows }) => rows.get(signal) ?? Number.NaN,
        formatNumber,
        signal === "logs" ? 96 : 76,
      ),
    ),
  ];
}
