/** Processes that sent something in the time range, what they are and how much they sent. */
import { Cpu, ListTree, ScrollText } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { cellsOf } from "../../api/cells.js";
import { useQuerySql } from "../../api/use-query-sql.js";
import { useScope } from "../../app/scope.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { Button } from "../../ui/controls/controls.js";
import { formatCount } from "../../ui/format.js";
import { LinkButton } from "../../ui/controls/link-button.js";
import { Panel, RecordFields, Split } from "../../ui/panel.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../../ui/states.js";
import { DataTable } from "../../ui/table/data-table.js";
import { figures, resultColumns } from "../../ui/table/table-columns.js";
import { useTableState } from "../../ui/table/table-state.js";
import { logsAddress, serviceAddress, tracesAddress } from "../addresses.js";
import { FindBar } from "../find-bar.js";
import { audienceCondition, unnamed } from "../services/service-data.js";
import css from "./processes-page.module.css";

/** Columns that only the panel shows. */
const inPanelOnly = new Set([
  "process_id",
  "instance",
  "namespace",
  "executable",
  "username",
  "audience",
  "properties",
]);

export default function ProcessesPage(): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const { audience } = useScope();
  const words = textOf(search["q"]) ?? "";
  const chosen = textOf(search["process"]);
  const [state, setState] = useTableState();
  const whose = audienceCondition(audience);
  const query = useQuerySql(processesSql(whose.sql), {
    parameters: [...whose.parameters, ...whose.parameters, words],
  });
  const { result } = query;
  const columns = useMemo(
    () =>
      resultColumns(result, {
        service: { title: "Service", width: 170 },
        version: { title: "Version", width: 90 },
        host: { title: "Host", width: 150 },
        pid: { title: "PID", width: 80, ...figures },
        started: { title: "Started" },
        last_seen: { title: "Last seen", keep: true },
        first_seen: { title: "First seen" },
        logs: { title: "Log records", width: 100 },
        spans: { title: "Spans", width: 90 },
        points: { title: "Points", width: 90 },
        sdk: { title: "SDK", width: 170 },
      }).filter(({ id }) => !inPanelOnly.has(id)),
    [result],
  );
  const cells = result === null ? null : cellsOf(result);
  const ids = Array.from({ length: result?.rows ?? 0 }, (_, row) => cells?.text("process_id", row) ?? "");
  const selected = chosen === null ? -1 : ids.indexOf(chosen);
  return (
    <div className={css.page}>
      <FindBar
        label="Find a process"
        placeholder="Service, host, version, id"
        words={words}
        onWords={(q) => change({ q }, { replace: true })}
        found={result === null ? "" : formatCount(result.rows, "process", "processes")}
      />
      <LoadingLine running={query.running} />
      <div className={css.notes}>
        {query.error === null ? null : (
          <ErrorPart error={query.error} title="The processes could not be read" onRetry={query.run} />
        )}
      </div>
      {(result === null || result.rows === 0) && query.error !== null ? (
        <div />
      ) : result === null || cells === null ? (
        <Skeleton rows={8} />
      ) : result.rows === 0 ? (
        <Nothing words={words} stale={query.stale} onClear={() => change({ q: undefined })} />
      ) : (
        <Split
          panel={
            selected === -1 || result.rows <= selected ? null : (
              <Panel title={cells.text("service", selected)} onClose={() => change({ process: undefined })}>
                <div className={css.links}>
                  <LinkButton {...logsAddress({ process_id: chosen })}>
                    <ScrollText aria-hidden /> Logs
                  </LinkButton>
                  <LinkButton {...tracesAddress({ process_id: chosen })}>
                    <ListTree aria-hidden /> Traces
                  </LinkButton>
                  <LinkButton {...serviceAddress(cells.text("service", selected))}>Service</LinkButton>
                </div>
                <RecordFields result={result} row={selected} />
              </Panel>
            )
          }
        >
          <DataTable
            label="Processes"
            columns={columns}
            rows={result.rows}
            version={result}
            state={state}
            onState={setState}
            selected={selected === -1 ? null : selected}
            onSelect={(row) => change({ process: row === null ? undefined : ids[row] })}
            stale={query.stale}
          />
        </Split>
      )}
    </div>
  );
}

/** Parameters: those of `whose` twice, then words that a process has somewhere. */
function processesSql(whose: string): string {
  return `SELECT coalesce(service_name, '${unnamed}') AS service, service_version AS version, host_name AS host,
  process_pid::VARCHAR AS pid, start_time AS started, insert_time AS first_seen, last_seen, logs, spans, points,
  concat_ws(' ', sdk_name, sdk_language, sdk_version) AS sdk, process_id, service_instance_id AS instance,
  service_namespace AS namespace, executable, username, audience, properties
FROM (FROM processes WHERE ${whose})
JOIN (
  SELECT process_id, max(end_time) AS last_seen, sum(row_count) FILTER (signal = 'logs') AS logs,
    sum(row_count) FILTER (signal = 'traces') AS spans, sum(row_count) FILTER (signal = 'metrics') AS points
  FROM blocks WHERE ${whose} GROUP BY ALL
) USING (process_id)
WHERE contains(lower(concat_ws(' ', service, version, host, sdk, process_id, instance, namespace)), lower(?))
ORDER BY last_seen DESC LIMIT 10000`;
}

function Nothing({
  words,
  stale,
  onClear,
}: {
  readonly words: string;
  readonly stale: boolean;
  readonly onClear: () => void;
}): ReactElement {
  return words === "" ? (
    <EmptyState icon={<Cpu />} title="No process sent anything in this time range" stale={stale}>
      Choose a longer time range at the top.
    </EmptyState>
  ) : (
    <EmptyState title="No such process" stale={stale} actions={<Button onClick={onClear}>Show all</Button>}>
      No process of this time range has these words in its service, version, host, SDK or id.
    </EmptyState>
  );
}
