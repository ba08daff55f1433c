/** What the process of a record logged right before and after it. */
import { type ReactElement, useEffect, useRef, useState } from "react";

import type { QueryResult } from "../../api/query.js";
import { useQuerySql } from "../../api/use-query-sql.js";
import { textValue, timeValue } from "../../arrow/column.js";
import { Button, classes } from "../../ui/controls/controls.js";
import { formatTimeExact } from "../../ui/format.js";
import { Banner, ErrorPart, Skeleton } from "../../ui/states.js";
import { LogLine } from "./log-line.js";
import css from "./log-panel.module.css";
import { entryKey, type LogEntry, logEntry, logRows, logSelect } from "./log-rows.js";

const firstLines = 15;
const mostLines = 960;
/** How far away a line may be. */
const reachMs = 3_600_000;

export function LogContext({ entry }: { readonly entry: LogEntry }): ReactElement {
  const [lines, setLines] = useState({ before: firstLines, after: firstLines });
  const time = timeValue(entry.time);
  const atMs = Number(time / 1_000_000n);
  const range = { beginMs: atMs - reachMs, endMs: atMs + reachMs };
  const who = [textValue(entry.process_id), textValue(entry.audience), formatTimeExact(time)];
  const before = useQuerySql(
    `${logSelect} WHERE process_id = ? AND audience = ? AND time <= ?::TIMESTAMP_NS ORDER BY time DESC LIMIT ${lines.before + 1}`,
    { parameters: who, range },
  );
  const after = useQuerySql(
    `${logSelect} WHERE process_id = ? AND audience = ? AND time > ?::TIMESTAMP_NS ORDER BY time LIMIT ${lines.after}`,
    { parameters: who, range },
  );
  const key = entryKey(entry);
  const here = useRef<HTMLDivElement | null>(null);
  const isThere = before.result !== null && after.result !== null;
  useEffect(() => here.current?.scrollIntoView({ block: "center" }), [key, isThere]);
  const error = before.error ?? after.error;
  if (error !== null) {
    return (
      <ErrorPart
        error={error}
        title="What was logged around it could not be read"
        onRetry={() => {
          before.run();
          after.run();
        }}
      />
    );
  }
  if (!isThere) {
    return <Skeleton />;
  }
  const earlier = entriesOf(before.result).toReversed();
  const later = entriesOf(after.result);
  const hasEarlier = earlier.length > lines.before && lines.before < mostLines;
  const hasLater = later.length >= lines.after && lines.after < mostLines;
  const line = (each: LogEntry, at: number): ReactElement => {
    const current = entryKey(each) === key;
    return (
      <div key={at} ref={current ? here : undefined}>
        <LogLine
          level={textValue(each.level_name)}
          time={timeValue(each.time)}
          text={textValue(each.msg)}
          current={current}
        />
      </div>
    );
  };
  // Those around another record stay, dimmed, until the new ones are there.
  const stale = before.stale || after.stale;
  return (
    <div className={classes(stale && css.stale)} aria-busy={stale}>
      {hasEarlier ? (
        <div className={css.more}>
          <Button look="quiet" onClick={() => setLines({ ...lines, before: lines.before * 4 })}>
            Earlier lines
          </Button>
        </div>
      ) : null}
      {earlier.length + later.length < 2 ? <Banner>The process logged nothing else within an hour.</Banner> : null}
      {earlier.map((each, at) => line(each, at - earlier.length))}
      {later.map(line)}
      {hasLater ? (
        <div className={css.more}>
          <Button look="quiet" onClick={() => setLines({ ...lines, after: lines.after * 4 })}>
            Later lines
          </Button>
        </div>
      ) : null}
    </div>
  );
}

function entriesOf(result: QueryResult | null): readonly LogEntry[] {
  const rows = logRows([], result);
  return Array.from({ length: rows.count }, (_, row) => logEntry(rows, row));
}
