/** Erasures and checks: maintenance does them one after the other. */
import type { ReactElement } from "react";

import type { Erasure } from "../../api/wire.js";
import { serverNow } from "../../api/server-clock.js";
import { formatMilliseconds } from "../../ui/format.js";
import { Banner } from "../../ui/states.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import { Facts, textColumn, timeColumn, timeText } from "../list-page.js";

/** What is common to both. */
type LakeTask = Pick<Erasure, "state" | "error" | "created_at" | "created_by" | "started_at" | "finished_at">;

/** How often a list is asked for again: fast while something in it is not at its end. */
export function everyMs(tasks: readonly LakeTask[]): number | false {
  return tasks.some(({ state }) => state === "waiting" || state === "running") ? 1000 : false;
}

export function stateColumn(rows: readonly LakeTask[]): TableColumn {
  return textColumn(rows, "state", "State", ({ state }) => state, { width: 90 });
}

export function askedColumns(rows: readonly LakeTask[]): readonly TableColumn[] {
  return [
    timeColumn(rows, "created_at", "Asked for", (row) => row.created_at),
    textColumn(rows, "created_by", "By", (row) => row.created_by),
  ];
}

/** Nobody takes it for longer than maintenance needs to see it. */
const longMs = 60_000;

/** How a task stands, and why it does not go on. */
export function TaskState({ task }: { readonly task: LakeTask }): ReactElement | null {
  const { state, error, created_at: asked } = task;
  if (state === "failed") {
    return (
      <Banner kind="error" title="It failed">
        <p>{error ?? "The log of maintenance says why."}</p>
        <p>What it did until then stays done. Ask for it again when the reason is gone.</p>
      </Banner>
    );
  }
  if (state === "waiting" && serverNow() - Date.parse(asked) > longMs) {
    return (
      <Banner kind="warn" title="Maintenance has not begun it">
        <p>
          It does one after the other, so that an earlier erasure or check may be under way. If none is, no server with
          the role maintenance runs.
        </p>
      </Banner>
    );
  }
  if (state === "running" && error !== null) {
    return (
      <Banner kind="warn" title="It cannot go on at present">
        <p>{error}</p>
        <p>Maintenance tries again each minute.</p>
      </Banner>
    );
  }
  return state === "running" || state === "waiting" ? (
    <Banner title={state === "running" ? "It runs" : "It waits for maintenance"}>
      <p>You may leave this page: it goes on without you, after a restart as well.</p>
    </Banner>
  ) : null;
}

/** When it was asked for, began and ended. */
export function TaskTimes({ task }: { readonly task: LakeTask }): ReactElement {
  const { started_at: started, finished_at: finished } = task;
  return (
    <Facts
      facts={[
        ["Asked for", `${timeText(task.created_at)} by ${task.created_by}`],
        ["Began", started === null ? "not yet" : timeText(started)],
        [
          "Ended",
          started === null || finished === null
            ? "not yet"
            : `${timeText(finished)}, after ${formatMilliseconds(Date.parse(finished) - Date.parse(started))}`,
        ],
      ]}
    />
  );
}
