/** What is shown beside data: that something failed, that there is nothing, that it is on its way. */
import { Toast } from "@base-ui/react/toast";
import { CircleAlert, CircleCheck, Info, RotateCw, TriangleAlert, X } from "lucide-react";
import type { ReactElement, ReactNode } from "react";

import { adviceFor, ApiError, inDoubtCode, PlainError, wordsOf } from "../api/error.js";
import { Button, classes, CopyButton, IconButton } from "./controls/controls.js";
import { oneLine } from "./format.js";
import css from "./states.module.css";
import { toasts } from "./toast.js";

const icons = { info: Info, good: CircleCheck, warn: TriangleAlert, error: CircleAlert } as const;

/** A line at the top of a page or a part of it. */
export function Banner({
  kind = "info",
  title,
  children,
  onDismiss,
}: {
  readonly kind?: keyof typeof icons;
  readonly title?: string;
  readonly children?: ReactNode;
  readonly onDismiss?: () => void;
}): ReactElement {
  const Icon = icons[kind];
  return (
    <div
      className={classes(css.banner, kind !== "info" && css[kind])}
      role={kind === "error" || kind === "warn" ? "alert" : "status"}
    >
      <Icon aria-hidden />
      <div className={css.bannerBody}>
        {title === undefined ? null : <strong>{oneLine(title)}</strong>}
        {children}
      </div>
      {onDismiss === undefined ? null : (
        <IconButton label="Dismiss" onClick={onDismiss}>
          <X />
        </IconButton>
      )}
    </div>
  );
}

/** Before a line of a query, below which a mark is at the letter that the engine means. */
const placeBegins = /\n(?=LINE \d)/u;

/** What failed, why, what to do, and the request id for whoever looks into it. */
export function ErrorPart({
  error,
  title = "That did not work",
  onRetry,
}: {
  readonly error: unknown;
  readonly title?: string | undefined;
  readonly onRetry?: () => void;
}): ReactElement {
  const known = error instanceof ApiError ? error : null;
  const [words = "", ...place] = wordsOf(error).split(placeBegins);
  const requestId = known?.requestId ?? null;
  const said = requestId === null ? words : words.replace(`; request id ${requestId}`, "");
  const advice =
    known !== null
      ? adviceFor(known)
      : error instanceof PlainError
        ? null
        : "Load the page again. If it comes back, it is a defect.";
  return (
    <Banner kind="error" title={known?.code === inDoubtCode ? "Nobody knows whether that was done" : title}>
      <p className={css.text}>{said.trimEnd()}</p>
      {place.length === 0 ? null : (
        <pre className={css.place} tabIndex={0} role="group" aria-label="Place in the query">
          {place.join("\n")}
        </pre>
      )}
      {advice === null ? null : <p>{advice}</p>}
      {onRetry === undefined && requestId === null ? null : (
        <div className={css.actions}>
          {onRetry === undefined ? null : (
            <Button onClick={onRetry}>
              <RotateCw /> Try again
            </Button>
          )}
          {requestId === null ? null : (
            <span className={css.requestId}>
              Request id <code>{requestId}</code>
              <CopyButton text={requestId} label="Copy the request id" />
            </span>
          )}
        </div>
      )}
    </Banner>
  );
}

/** There is nothing: says why, and offers the one next step. */
export function EmptyState({
  icon,
  title,
  children,
  actions,
  stale = false,
}: {
  readonly icon?: ReactElement;
  readonly title: string;
  /** That is of the query before; a newer answer is on its way. */
  readonly stale?: boolean;
  readonly children?: ReactNode;
  readonly actions?: ReactNode;
}): ReactElement {
  return (
    <div className={classes(css.empty, stale && css.stale)} aria-busy={stale}>
      {icon}
      <h2>{oneLine(title)}</h2>
      {children === undefined ? null : <p>{children}</p>}
      {actions === undefined ? null : <div className={css.emptyActions}>{actions}</div>}
    </div>
  );
}

/** Takes its place always, so that nothing moves when it begins to run. */
export function LoadingLine({ running }: { readonly running: boolean }): ReactElement {
  return <div className={css.line} data-running={running} role="presentation" />;
}

/** Where nothing was yet. */
export function Skeleton({ rows = 6 }: { readonly rows?: number }): ReactElement {
  return (
    <div className={css.skeletons} aria-busy="true">
      <span className="visually-hidden" role="status">
        Loading
      </span>
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className={css.skeleton} style={{ width: `${[92, 78, 85, 64, 88, 71][row % 6]}%` }} />
      ))}
    </div>
  );
}

/** At the end of a page, which is no window to scroll: over its lower left, or below it on narrow screens. */
export function Toasts(): ReactElement {
  return (
    <Toast.Provider toastManager={toasts} timeout={5000}>
      <Toast.Viewport className={css.toasts}>
        <ToastList />
      </Toast.Viewport>
    </Toast.Provider>
  );
}

function ToastList(): ReactNode {
  return Toast.useToastManager().toasts.map((each) => (
    <Toast.Root key={each.id} toast={each} className={css.toast}>
      <div className={css.toastBody}>
        <Toast.Title className={css.toastTitle} render={<p />} />
        <Toast.Description render={<p />} />
      </div>
      <Toast.Close
        render={
          <IconButton label="Dismiss">
            <X />
          </IconButton>
        }
      />
    </Toast.Root>
  ));
}
