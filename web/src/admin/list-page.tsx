/**
 * A page with a list: what it is, a filter in the address, a table whose rows open a panel, and a panel with a form for
 * what is new.
 */
import { Plus, RefreshCw, SearchX } from "lucide-react";
import { type ReactElement, type ReactNode, useEffect, useMemo, useRef } from "react";

import { serverNow } from "../api/server-clock.js";
import { textOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { AddressInput, Button, IconButton } from "../ui/controls/controls.js";
import { capital, formatAge, formatNumber, formatTime } from "../ui/format.js";
import { Panel, Split } from "../ui/panel.js";
import { EmptyState, LoadingLine, Skeleton } from "../ui/states.js";
import { DataTable } from "../ui/table/data-table.js";
import { briefTime, figures, type TableColumn } from "../ui/table/table-columns.js";
import { useTableState } from "../ui/table/table-state.js";
import css from "./admin.module.css";
import { mostRows } from "./api.js";
import { AdminError, NotAnew } from "./form.js";

/** What makes rows of a kind a table. */
interface ListOf<T> {
  /** In the plural, as in "12 keys". */
  readonly noun: string;
  readonly idOf: (row: T) => string;
  readonly columns: (rows: readonly T[]) => readonly TableColumn[];
}

export interface ListPageProps<T> extends ListOf<T> {
  /** One or two sentences: what this is. */
  readonly intro: ReactNode;
  readonly query: {
    readonly data: readonly T[] | undefined;
    readonly error: unknown;
    readonly isFetching: boolean;
    readonly refetch: () => Promise<unknown>;
  };
  /** Narrows the rows beside the text filter. */
  readonly keep?: (row: T) => boolean;
  readonly filters?: ReactNode;
  /** Above the table. */
  readonly notes?: ReactNode;
  /** Instead of the table when there is nothing at all. */
  readonly empty: { readonly icon: ReactElement; readonly title: string; readonly text: ReactNode };
  /** @param close does nothing when another row is open by then */
  readonly panel: (row: T, close: () => void) => { readonly title: string; readonly body: ReactNode };
  /** The form for a new one; null: there is none. */
  readonly add: {
    readonly label: string;
    readonly title: string;
    readonly form: (close: () => void) => ReactNode;
  } | null;
  /** What `show` in the address means everything; left out: none does. */
  readonly showAll?: string;
  /** Below the table. */
  readonly foot?: ReactNode;
}

export function ListPage<T>(o: ListPageProps<T>): ReactElement {
  const { query, add } = o;
  const search = useSearchParameters();
  const change = useChangeSearch();
  const [state, setState] = useTableState();
  const text = textOf(search["q"]) ?? "";
  const openId = textOf(search["open"]);
  const isAdding = add !== null && textOf(search["new"]) !== null;
  const all = query.data;
  const rows = useMemo(() => filtered(all ?? [], o.columns, text, o.keep), [all, text, o.keep, o.columns]);
  const columns = useMemo(() => o.columns(rows), [rows, o.columns]);
  const at = rows.findIndex((row) => o.idOf(row) === openId);
  const open = rows[at];
  const close = (): void => change({ open: undefined, new: undefined });
  const latest = useRef<string | null>(null);
  useEffect(() => {
    latest.current = openId;
    return () => {
      latest.current = null;
    };
  }, [openId]);
  /** Once something is done to a row: another one may be open by then, or another page. */
  const closeRow = (id: string): void => {
    if (latest.current === id) {
      close();
    }
  };
  const addButton =
    add === null ? null : (
      <Button look="primary" onClick={() => change({ new: "1", open: undefined })}>
        <Plus /> {add.label}
      </Button>
    );
  const narrowed = text !== "" || o.keep !== undefined;

  const shown = open === undefined ? null : o.panel(open, () => closeRow(o.idOf(open)));
  const panel = isAdding ? (
    <Panel key="new" title={add.title} takesFocus onClose={close}>
      {add.form(close)}
    </Panel>
  ) : shown === null ? null : (
    <Panel key="open" title={shown.title} onClose={close}>
      <div className={css.panelBody}>{shown.body}</div>
    </Panel>
  );

  return (
    <Split panel={panel}>
      <div className={css.page}>
        <div className={css.head}>
          <p className={css.intro}>{o.intro}</p>
          <div className={css.tools}>
            <AddressInput
              aria-label={`Filter ${o.noun}`}
              placeholder={`Filter ${o.noun}`}
              type="search"
              className={css.filter}
              value={text}
              onType={(typed) => change({ q: typed || undefined }, { replace: true })}
            />
            {o.filters}
            <span className={css.count} role="status">
              {all === undefined ? "" : countWords(rows.length, all.length, o.noun)}
            </span>
            <IconButton label="Ask again" onClick={() => void query.refetch()}>
              <RefreshCw />
            </IconButton>
            {addButton}
          </div>
          {o.notes === undefined || o.notes === null ? null : <div className={css.notes}>{o.notes}</div>}
          {all === undefined ? null : <NotAnew list={query} noun={o.noun} />}
        </div>
        <LoadingLine running={query.isFetching} />
        <div className={css.body}>
          {query.error !== null && all === undefined ? (
            <div className={css.failed}>
              <AdminError
                error={query.error}
                title={`The ${o.noun} could not be read`}
                onRetry={() => void query.refetch()}
              />
            </div>
          ) : all === undefined ? (
            <Skeleton />
          ) : all.length === 0 ? (
            <EmptyState icon={o.empty.icon} title={o.empty.title} actions={addButton}>
              {o.empty.text}
            </EmptyState>
          ) : rows.length === 0 ? (
            <EmptyState
              icon={<SearchX />}
              title={`The filter leaves none of ${countWords(all.length, all.length, o.noun)}`}
              actions={
                narrowed ? (
                  <Button onClick={() => change({ q: undefined, action: undefined, show: o.showAll })}>Show all</Button>
                ) : null
              }
            />
          ) : (
            <DataTable
              label={capital(o.noun)}
              columns={columns}
              rows={rows.length}
              version={rows}
              state={state}
              onState={setState}
              selected={at === -1 ? null : at}
              onSelect={(row) => {
                const chosen = row === null ? undefined : rows[row];
                change({ open: chosen === undefined ? undefined : o.idOf(chosen), new: undefined });
              }}
            />
          )}
        </div>
        {o.foot}
      </div>
    </Split>
  );
}

/** Rows of which some cell holds the text, whatever its case. */
function filtered<T>(
  all: readonly T[],
  columns: (rows: readonly T[]) => readonly TableColumn[],
  text: string,
  keep: ((row: T) => boolean) | undefined,
): readonly T[] {
  const kept = keep === undefined ? all : all.filter(keep);
  if (text === "") {
    return kept;
  }
  const wanted = text.toLowerCase();
  const cells = columns(kept);
  return kept.filter((_, row) => cells.some((column) => column.text(row)?.toLowerCase().includes(wanted) === true));
}

function countWords(shown: number, all: number, nouns: string): string {
  const noun = all === 1 ? nouns.replace(/ies$/, "y").replace(/s$/, "") : nouns;
  const total = `${all >= mostRows ? "the first " : ""}${formatNumber(all)} ${noun}`;
  return shown === all ? total : `${formatNumber(shown)} of ${total}`;
}

/** A column of texts. */
export function textColumn<T>(
  rows: readonly T[],
  id: string,
  title: string,
  value: (row: T) => string | null,
  o: Partial<TableColumn> = {},
): TableColumn {
  const text = (at: number): string | null => {
    const row = rows[at];
    return row === undefined ? null : value(row);
  };
  return { id, title, width: 180, text, sortBy: text, ...o };
}

/** A column of times as RFC 3339 texts. */
export function timeColumn<T>(
  rows: readonly T[],
  id: string,
  title: string,
  value: (row: T) => string | null,
  o: { readonly age?: boolean } & Partial<TableColumn> = {},
): TableColumn {
  const { age = false, ...over } = o;
  const ms = (at: number): number | null => {
    const row = rows[at];
    const time = row === undefined ? null : value(row);
    return time === null ? null : Date.parse(time);
  };
  const exact = (at: number): string | null => {
    const epoch = ms(at);
    return epoch === null ? null : formatTime(epoch, { digits: 0 });
  };
  const text = age
    ? (at: number): string | null => {
        const epoch = ms(at);
        return epoch === null ? null : formatAge(epoch, serverNow());
      }
    : exact;
  return {
    id,
    title,
    width: age ? 110 : 160,
    mono: !age,
    text,
    hint: exact,
    sortBy: ms,
    ...(age ? {} : { brief: briefTime }),
    ...over,
  };
}

/** A column of numbers. */
export function numberColumn<T>(
  rows: readonly T[],
  id: string,
  title: string,
  value: (row: T) => number | null,
  format: (value: number) => string = formatNumber,
): TableColumn {
  const number = (at: number): number | null => {
    const row = rows[at];
    return row === undefined ? null : value(row);
  };
  const text = (at: number): string | null => {
    const one = number(at);
    return one === null ? null : format(one);
  };
  return { id, title, width: 110, ...figures, text, sortBy: number };
}

/** Names and values in a panel. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [name: string, value: ReactNode])[];
}): ReactElement {
  return (
    <dl className={css.facts}>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A time in a panel. */
export function timeText(time: string | null): string {
  return time === null
    ? "never"
    : `${formatTime(Date.parse(time), { digits: 0 })} (${formatAge(Date.parse(time), serverNow())})`;
}
