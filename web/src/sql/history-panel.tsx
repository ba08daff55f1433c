import { History } from "lucide-react";
import type { ReactElement } from "react";

import { usePerson } from "../api/session.js";
import { Button } from "../ui/controls/controls.js";
import { formatAge, formatCount, formatMilliseconds, formatTime } from "../ui/format.js";
import { Panel } from "../ui/panel.js";
import { EmptyState } from "../ui/states.js";
import { forgetAll, useHistory } from "./history.js";
import css from "./sql-page.module.css";

/** What was asked before; a click brings it back into the editor. */
export function HistoryPanel({
  onPick,
  onClose,
}: {
  readonly onPick: (sql: string) => void;
  readonly onClose: () => void;
}): ReactElement {
  const { subject } = usePerson();
  const history = useHistory(subject);
  const nowMs = Date.now();
  return (
    <Panel
      title="History"
      onClose={onClose}
      tools={
        history.length === 0 ? null : (
          <Button look="quiet" onClick={() => forgetAll(subject)}>
            Forget all
          </Button>
        )
      }
    >
      {history.length === 0 ? (
        <EmptyState icon={<History />} title="Nothing asked yet">
          What you run is kept in this browser, without its results.
        </EmptyState>
      ) : (
        <ul className={css.history}>
          {history.map(({ sql, atMs, rows, milliseconds }) => (
            <li key={sql}>
              <button type="button" onClick={() => onPick(sql)}>
                <code title={sql}>{sql}</code>
                <span title={formatTime(atMs)}>
                  {formatAge(atMs, nowMs)}
                  {rows === null || milliseconds === null
                    ? " · no result"
                    : ` · ${formatCount(rows, "row")} in ${formatMilliseconds(milliseconds)}`}
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
