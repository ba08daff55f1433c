/** What is opened beside a page: at its right, or in its place on narrow screens. Never over it. */
import { Filter, FilterX, X } from "lucide-react";
import {
  type FocusEventHandler,
  type ReactElement,
  type ReactNode,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useRef,
} from "react";

import type { QueryResult } from "../api/query.js";
import { classes, CopyButton, IconButton } from "./controls/controls.js";
import { parseJson } from "./json/json.js";
import { JsonTree } from "./json/json-tree.js";
import css from "./panel.module.css";
import { cellText, shownText } from "./table/table-columns.js";

/**
 * A page, and a panel when there is one. On narrow screens one takes the other's place: who had the focus in what is
 * gone finds it in what is there, and back where it was in the page once the panel is closed.
 */
export function Split({ panel, children }: { readonly panel: ReactNode; readonly children: ReactNode }): ReactElement {
  const open = panel !== null && panel !== undefined && panel !== false;
  const split = useRef<HTMLDivElement | null>(null);
  const main = useRef<HTMLDivElement | null>(null);
  const held = useRef<Element | null>(null);
  const heldInMain = useRef<HTMLElement | null>(null);
  useLayoutEffect(() => {
    if (held.current === null || isShown(held.current)) {
      return;
    }
    const next = open ? split.current?.querySelector<HTMLElement>(":scope > aside") : heldInMain.current;
    (isShown(next) ? next : main.current)?.focus();
  });
  return (
    <div
      ref={split}
      className={classes(css.split, open && css.open)}
      onFocus={({ target }) => {
        held.current = target;
        if (main.current?.contains(target) === true) {
          heldInMain.current = target;
        }
      }}
      onBlur={() => (held.current = null)}
    >
      <div ref={main} className={css.main} tabIndex={-1}>
        {children}
      </div>
      {panel}
    </div>
  );
}

function isShown(element: Element | null | undefined): boolean {
  return element?.isConnected === true && element.checkVisibility();
}

/**
 * Of a part whose buttons may go when they are pressed: who had the focus in what has gone goes on in the nearest part
 * around it that can have it, and not at the top of the document.
 */
export function useGoneFocus<E extends HTMLElement>(): {
  readonly ref: RefObject<E | null>;
  readonly onFocus: FocusEventHandler;
  readonly onBlur: FocusEventHandler;
} {
  const ref = useRef<E | null>(null);
  const held = useRef<Element | null>(null);
  useLayoutEffect(() => {
    if (held.current?.isConnected === false) {
      ref.current?.closest<HTMLElement>("[tabindex]")?.focus({ preventScroll: true });
    }
  });
  return {
    ref,
    onFocus: ({ target }) => (held.current = target),
    onBlur: () => (held.current = null),
  };
}

const fields = "input, select, textarea, [role='combobox']";

export function Panel({
  title,
  tools,
  takesFocus = false,
  onClose,
  children,
}: {
  readonly title: string;
  /** Its first field has the focus when it opens. */
  readonly takesFocus?: boolean;
  /** Beside the control that closes it. */
  readonly tools?: ReactNode;
  readonly onClose: () => void;
  readonly children: ReactNode;
}): ReactElement {
  const goneFocus = useGoneFocus<HTMLElement>();
  const panel = goneFocus.ref;
  useEffect(() => {
    if (takesFocus) {
      panel.current?.querySelector<HTMLElement>(fields)?.focus();
    }
  }, [takesFocus]);
  return (
    <aside
      {...goneFocus}
      className={css.panel}
      aria-label={title}
      tabIndex={-1}
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
