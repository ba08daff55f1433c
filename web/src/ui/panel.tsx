/** What is opened beside a page: at its right, or in its place on narrow screens. Never over it. */
import { Filter, FilterX, X } from "lucide-react";
import type { ReactElement, ReactNode } from "react";

import type { QueryResult } from "../api/query.js";
import { classes, CopyButton, IconButton } from "./controls.js";
import { parseJson } from "./json/json.js";
import { JsonTree } from "./json/json-tree.js";
import css from "./panel.module.css";
import { cellText, shownText } from "./table/table-columns.js";

/** A page, and a panel when there is one. */
export function Split({ panel, children }: { readonly panel: ReactNode; readonly children: ReactNode }): ReactElement {
  const open = panel !== null && panel !== undefined && panel !== false;
  return (
    <div className={classes(css.split, open && css.open)}>
      <div className={css.main}>{children}</div>
      {panel}
    </div>
  );
}

export function Panel({
  title,
  tools,
  onClose,
  children,
}: {
  readonly title: string;
  /** Beside the control that closes it. */
  readonly tools?: ReactNode;
  readonly onClose: () => void;
  readonly children: ReactNode;
}): ReactElement {
  return (
    <aside
      className={css.panel}
      aria-label={title}
      onKeyDown={(event) => {
        if (event.key === "Escape") {
          onClose();
        }
      }}
    >
      <div className={css.head}>
        <h2 title={title}>{title}</h2>
        {tools}
        <IconButton label="Close" onClick={onClose}>
          <X />
        </IconButton>
      </div>
      {/* What is long has to be reached by the keyboard. */}
      <div className={css.body} tabIndex={0} role="group" aria-label="Details">
        {children}
      </div>
    </aside>
  );
}

/** Every column of a row in full; JSON as a tree. */
export function RecordFields({
  result,
  row,
  onFilter,
}: {
  readonly result: QueryResult;
  readonly row: number;
  readonly onFilter?: (name: string, value: string | null, exclude: boolean) => void;
}): ReactElement {
  return (
    <dl className={css.record}>
      {result.columns.map((column, at) => {
        const value = column.value(row);
        const text = cellText(value, column.type);
        const json = typeof value === "string" ? parseJson(value) : typeof value === "object" ? value : null;
        return (
          <div key={`${at} ${column.name}`} className={css.field}>
            <dt className={css.name}>{column.name}</dt>
            <dd className={css.value}>
              {json === null || json instanceof Uint8Array ? shownText(text) : <JsonTree value={json} />}
            </dd>
            <dd className={css.acts}>
              {onFilter === undefined ? null : (
                <>
                  <IconButton label={`Only this ${column.name}`} onClick={() => onFilter(column.name, text, false)}>
                    <Filter />
                  </IconButton>
                  <IconButton label={`Without this ${column.name}`} onClick={() => onFilter(column.name, text, true)}>
                    <FilterX />
                  </IconButton>
                </>
              )}
              {text === null ? null : <CopyButton text={text} label={`Copy ${column.name}`} />}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}
