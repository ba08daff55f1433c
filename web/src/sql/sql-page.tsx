/** SQL: ask, see, cancel. The text is in the address once it has run; it never runs because of an address alone. */
import { ChartLine, Download, History, Play, Square, Table, Text, WandSparkles } from "lucide-react";
import { type ReactElement, useEffect, useRef, useState } from "react";

import { wordsOf } from "../api/error.js";
import type { QueryRequest } from "../api/query.js";
import { usePerson } from "../api/session.js";
import { type SqlState, useQuerySql } from "../api/use-query-sql.js";
import { useScope } from "../app/scope.js";
import { textOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { useTimeRange } from "../app/time-range-context.js";
import { Button, IconButton, Joined, Menu, MenuItem, Select } from "../ui/controls/controls.js";
import { formatBytes, formatCount, formatMilliseconds, formatNumber, formatPercent } from "../ui/format.js";
import { Split } from "../ui/panel.js";
import { saveFile } from "../ui/controls/copy-and-save.js";
import { LoadingLine } from "../ui/states.js";
import { toast } from "../ui/toast.js";
import { useNarrow } from "../app/use-narrow.js";
import { useSqlCompletion } from "./completion.js";
import { fetchArrow, toCsv, toJsonLines, toParquet } from "./download.js";
import { draftOf, keepDraft } from "./draft.js";
import { HistoryPanel } from "./history-panel.js";
import { remember } from "./history.js";
import { SqlEditor } from "./sql-editor.js";
import css from "./sql-page.module.css";
import { type ResultView, SqlResult } from "./sql-result.js";

const firstText = "SELECT time, service_name, level_name, msg\nFROM log_entries\nORDER BY time DESC";
const limits = [1000, 10_000, 100_000, 1_000_000];
const defaultLimit = 10_000;

/** What was asked for last. */
interface Asked {
  readonly sql: string;
  readonly explain: boolean;
}

export default function SqlPage(): ReactElement {
  const search = useSearchParameters();
  const changeSearch = useChangeSearch();
  const { refresh, resolved } = useTimeRange();
  const { source } = useScope();
  const { subject } = usePerson();
  const completion = useSqlCompletion();
  const inAddress = textOf(search["sql"]);
  const [text, setText] = useState(() => draftOf(subject, inAddress) ?? inAddress ?? firstText);
  const [asked, setAsked] = useState<Asked | null>(null);
  const [historyOpen, setHistoryOpen] = useState(false);
  const narrow = useNarrow();
  const limit = limits.find((each) => String(each) === search["limit"]) ?? defaultLimit;
  const view = asked?.explain === true ? "raw" : viewOf(search["view"]);
  const sql = asked === null ? "" : asked.explain ? `EXPLAIN ${asked.sql}` : asked.sql;
  const query = useQuerySql(sql, { enabled: asked !== null, limit });
  useRemembered(subject, asked, query);

  // Back and forward bring their texts.
  const shownAddress = useRef(inAddress);
  useEffect(() => {
    if (inAddress !== null && inAddress !== shownAddress.current) {
      setText(inAddress);
    }
    shownAddress.current = inAddress;
  }, [inAddress]);

  const newest = useRef(text);
  newest.current = text;
  useEffect(() => {
    const keep = (): void => keepDraft(subject, shownAddress.current, newest.current);
    window.addEventListener("pagehide", keep);
    return () => {
      window.removeEventListener("pagehide", keep);
      keep();
    };
  }, [subject]);

  const ask = (selection: string, explain: boolean): void => {
    const next = (selection.trim() === "" ? text : selection).trim().replace(/;\s*$/, "");
    if (next !== "") {
      shownAddress.current = text; // what is typed from now on stays
      changeSearch({ sql: text });
      setAsked({ sql: next, explain });
      refresh();
    }
  };
  const format = async (): Promise<void> => {
    try {
      const { format: formatted } = await import("sql-formatter");
      setText(
        formatted(newest.current, { language: "duckdb", keywordCase: "upper", tabWidth: 2, expressionWidth: 80 }),
      );
    } catch (error) {
      toast("Not formatted", wordsOf(error).split("\n")[0], "error");
    }
  };
  const request: QueryRequest = {
    sql,
    beginMs: resolved.beginMs,
    endMs: resolved.endMs,
    limit,
    dataSource: source ?? undefined,
  };
  return (
    <Split
      panel={
        historyOpen ? (
          <HistoryPanel
            onPick={(picked) => {
              setText(picked);
              if (narrow) {
                setHistoryOpen(false); // it is in the place of the editor
              }
            }}
            onClose={() => setHistoryOpen(false)}
          />
        ) : null
      }
    >
      <div className={css.page}>
        <div className={css.editor}>
          <SqlEditor
            label="SQL"
            value={text}
            onChange={setText}
            onRun={(selection) => ask(selection, false)}
            completion={completion}
          />
        </div>
        <div className={css.bar}>
          {/* Not at once: the second click of two would cancel what the first began. */}
          {query.slow ? (
            <Button onClick={query.cancel} className={css.run}>
              <Square /> Cancel
            </Button>
          ) : (
            <Button look="primary" onClick={() => ask("", false)} className={css.run}>
              <Play /> Run
            </Button>
          )}
          <Button onClick={() => ask("", true)} busy={query.running}>
            Explain
          </Button>
          <IconButton label="Format the text" onClick={() => void format()}>
            <WandSparkles />
          </IconButton>
          <IconButton label="History" aria-pressed={historyOpen} onClick={() => setHistoryOpen(!historyOpen)}>
            <History />
          </IconButton>
          <span className={css.said} role="status">
            {wordsFor(query)}
          </span>
          <Select
            label="Limit"
            value={String(limit)}
            options={limits.map((each) => ({ value: String(each), label: `${formatNumber(each)} rows` }))}
            onChange={(next) =>
              changeSearch({ limit: next === String(defaultLimit) ? undefined : next }, { replace: true })
            }
          />
          <Views view={view} onChange={(next) => changeSearch({ view: next === "table" ? undefined : next })} />
          <Downloads query={query} request={request} />
        </div>
        <LoadingLine running={query.running} />
        <SqlResult
          query={query}
          sql={sql}
          asked={asked !== null}
          view={view}
          onRetry={() => ask("", asked?.explain ?? false)}
        />
      </div>
    </Split>
  );
}

const views = [
  ["table", "Table", Table],
  ["chart", "Chart", ChartLine],
  ["raw", "Text", Text],
] as const;

function viewOf(value: unknown): ResultView {
  return views.find(([name]) => name === value)?.[0] ?? "table";
}

function Views({
  view,
  onChange,
}: {
  readonly view: ResultView;
  readonly onChange: (view: ResultView) => void;
}): ReactElement {
  return (
    <Joined label="Shown as">
      {views.map(([name, words, Icon]) => (
        <IconButton key={name} label={words} look="plain" aria-pressed={name === view} onClick={() => onChange(name)}>
          <Icon />
        </IconButton>
      ))}
    </Joined>
  );
}

function Downloads({ query, request }: { readonly query: SqlState; readonly request: QueryRequest }): ReactElement {
  const { result, summary, running, stale } = query;
  const part = summary === null || summary.cut ? "-partial" : "";
  const save = (ending: string, make: () => Promise<Blob>): void => {
    const name = `telemetry-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}${ending}`;
    make().then(
      (content) => saveFile(name, content),
      (error: unknown) => toast("Not downloaded", wordsOf(error), "error"),
    );
  };
  const disabled = result === null || result.columns.length === 0 || running || stale;
  return (
    <Menu
      trigger={
        <IconButton label="Download" look="plain" disabled={disabled}>
          <Download />
        </IconButton>
      }
    >
      <MenuItem onClick={() => result !== null && save(`${part}.csv`, () => toCsv(result))}>CSV</MenuItem>
      <MenuItem onClick={() => result !== null && save(`${part}.jsonl`, () => toJsonLines(result))}>
        JSON, a row a line
      </MenuItem>
      <MenuItem onClick={() => result !== null && save(`${part}.parquet`, () => toParquet(result))}>Parquet</MenuItem>
      <MenuItem onClick={() => save(".arrows", () => fetchArrow(request))}>Arrow stream (asks again)</MenuItem>
    </Menu>
  );
}

function wordsFor({ running, slow, progress, summary, result, stale, cancelled }: SqlState): string {
  if (running) {
    const rows = progress?.rows ?? 0;
    const part = typeof progress?.fraction === "number" ? `, ${formatPercent(progress.fraction)}` : "";
    return slow ? `Running${rows > 0 ? `, ${formatCount(rows, "row")} so far` : ""}${part}` : "";
  }
  if (cancelled) {
    return `Cancelled${result === null || stale ? "" : ` after ${formatCount(result.rows, "row")}`}`;
  }
  return summary === null
    ? ""
    : `${formatCount(summary.rows, "row")}, ${formatBytes(summary.bytes)} in ${formatMilliseconds(summary.milliseconds)}`;
}

/** Puts a query into the history when it has ended, however it did. */
function useRemembered(subject: string, asked: Asked | null, query: SqlState): void {
  const wasRunning = useRef(false);
  const { running, summary } = query;
  useEffect(() => {
    if (wasRunning.current && !running && asked !== null) {
      const { rows = null, milliseconds = null } = summary ?? {};
      remember(subject, { sql: asked.sql, atMs: Date.now(), rows, milliseconds });
    }
    wasRunning.current = running;
  }, [running, summary, asked, subject]);
}
