/** A log record in full, and what its process logged around it. */
import { Link } from "@tanstack/react-router";
import { ListTree } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { useQuerySql } from "../../api/use-query-sql.js";
import { textValue, timeValue } from "../../arrow/column.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { Button, classes, CopyButton } from "../../ui/controls/controls.js";
import { attributeKey } from "../../ui/filters/filters.js";
import { formatTime, formatTimeExact, nothing } from "../../ui/format.js";
import { parseJson } from "../../ui/json/json.js";
import { JsonTree } from "../../ui/json/json-tree.js";
import { LevelBadge } from "../../ui/level.js";
import { Panel } from "../../ui/panel.js";
import { ErrorPart, Skeleton } from "../../ui/states.js";
import { Properties } from "../properties.js";
import { propertiesOf, type Property } from "../property.js";
import { traceAddress } from "../trace-address.js";
import { LogContext } from "./log-context.js";
import { logColumns, type LogEntry, shownFields } from "./log-rows.js";
import css from "./log-panel.module.css";

export function LogPanel({
  entry,
  onClose,
  onFilter,
  onColumn,
}: {
  readonly entry: LogEntry;
  readonly onClose: () => void;
  readonly onFilter: (name: string, value: string | null, exclude: boolean) => void;
  readonly onColumn: (name: string) => void;
}): ReactElement {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const around = textOf(search["panel"]) === "around";
  const time = timeValue(entry.time);
  const traceId = textValue(entry.trace_id);
  return (
    <Panel
      title="Log record"
      onClose={onClose}
      tools={
        traceId === null ? null : (
          <Link className={css.link} {...traceAddress(traceId, Number(time / 1_000_000n), textValue(entry.span_id))}>
            <ListTree aria-hidden /> Open the trace
          </Link>
        )
      }
    >
      <div className={css.top}>
        <LevelBadge level={textValue(entry.level_name)} />
        <time title={formatTimeExact(time)}>{formatTime(time, { digits: 6 })}</time>
        <span className={css.service}>{textValue(entry.service_name) ?? nothing}</span>
      </div>
      <div className={css.tabs} role="group" aria-label="Parts">
        <Button look="quiet" aria-pressed={!around} onClick={() => change({ panel: undefined }, { replace: true })}>
          Fields
        </Button>
        <Button look="quiet" aria-pressed={around} onClick={() => change({ panel: "around" }, { replace: true })}>
          Before and after
        </Button>
      </div>
      {around ? <LogContext entry={entry} /> : <Fields entry={entry} onFilter={onFilter} onColumn={onColumn} />}
    </Panel>
  );
}

function Fields({
  entry,
  onFilter,
  onColumn,
}: {
  readonly entry: LogEntry;
  readonly onFilter: (name: string, value: string | null, exclude: boolean) => void;
  readonly onColumn: (name: string) => void;
}): ReactElement {
  const attributes = useMemo(() => propertiesOf(textValue(entry.properties)), [entry]);
  const fields = useMemo(
    () =>
      shownFields
        .map((name): Property => ({ name, value: textValue(entry[name]) }))
        .filter(({ value }) => value !== null && value !== ""),
    [entry],
  );
  return (
    <>
      <Message text={textValue(entry.msg)} />
      <Properties
        title="Attributes"
        properties={attributes}
        onFilter={(name, value, exclude) => onFilter(attributeKey(name, logColumns), value, exclude)}
        onColumn={(name) => onColumn(attributeKey(name, logColumns))}
      />
      <Properties title="Fields" properties={fields} onFilter={onFilter} onColumn={onColumn} />
      <Process entry={entry} />
    </>
  );
}

function Message({ text }: { readonly text: string | null }): ReactElement {
  const json = text === null ? null : parseJson(text);
  return (
    <div className={css.message}>
      <div className={css.text}>{json === null ? (text ?? "No message") : <JsonTree value={json} />}</div>
      {text === null ? null : <CopyButton text={text} label="Copy the message" />}
    </div>
  );
}

/** Attributes of the resource; they are the same for all records of the process. */
function Process({ entry }: { readonly entry: LogEntry }): ReactElement | null {
  const { result, stale, error, running, run } = useQuerySql(
    "SELECT properties FROM processes WHERE process_id = ? AND audience = ? LIMIT 1",
    { parameters: [textValue(entry.process_id), textValue(entry.audience)], range: null },
  );
  const properties = useMemo(() => propertiesOf(textValue(result?.columns[0]?.value(0) ?? null)), [result]);
  if (error !== null) {
    return <ErrorPart error={error} title="The process could not be read" onRetry={run} />;
  }
  return result === null && running ? (
    <Skeleton rows={4} />
  ) : (
    <div className={classes(stale && css.stale)} aria-busy={stale}>
      <Properties title="Process" properties={properties} />
    </div>
  );
}
