/** Screens as a file, to keep or to take to another deployment. */
import { Download, LayoutDashboard } from "lucide-react";
import { type ReactElement, useMemo, useState } from "react";

import { call } from "../../api/call.js";
import type { Screen } from "../../api/wire.js";
import { downloadScreens } from "../../screens/screen-files.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { AddressInput, Button, Checkbox } from "../../ui/controls/controls.js";
import { formatNumber, formatTime, oneLine } from "../../ui/format.js";
import { EmptyState, LoadingLine, Skeleton } from "../../ui/states.js";
import { toast } from "../../ui/toast.js";
import admin from "../admin.module.css";
import { useList, useTask } from "../api.js";
import { AdminError } from "../form.js";
import css from "./screens.module.css";

type ScreenRow = Omit<Screen, "config">;

export default function ExportPage(): ReactElement {
  const query = useList<ScreenRow>(["screens"], "api/screens");
  const text = textOf(useSearchParameters()["q"]) ?? "";
  const change = useChangeSearch();
  const [without, setWithout] = useState<ReadonlySet<string>>(new Set());
  const all = query.data;
  const shown = useMemo(() => {
    const wanted = text.toLowerCase();
    return (all ?? []).filter(({ name, folder }) => `${folder ?? ""}/${name}`.toLowerCase().includes(wanted));
  }, [all, text]);
  const chosen = shown.filter(({ name }) => !without.has(name));
  const task = useTask(async () => {
    const screens: Screen[] = [];
    for (const { name } of chosen) {
      screens.push(await call<Screen>(`api/screens/${encodeURIComponent(name)}`));
    }
    const [only] = screens;
    const name =
      screens.length === 1 && only !== undefined ? only.name.replaceAll(/[^\p{L}\p{N}_-]+/gu, "-") : "screens";
    downloadScreens(name, screens);
    toast(`${countWords(screens.length)} exported`);
  });
  return (
    <div className={css.page}>
      <div className={admin.head}>
        <p className={admin.intro}>
          A file of one screen is also read by <code>telemetry screens push</code>. Files hold what screens ask for, not
          what they show.
        </p>
        <div className={admin.tools}>
          <AddressInput
            aria-label="Filter screens"
            placeholder="Filter screens"
            type="search"
            className={admin.filter}
            value={text}
            onType={(typed) => change({ q: typed || undefined }, { replace: true })}
          />
          <span className={admin.count} role="status">
            {all === undefined ? "" : `${formatNumber(chosen.length)} of ${formatNumber(all.length)} screens chosen`}
          </span>
          <Button look="primary" busy={task.busy} disabled={chosen.length === 0} onClick={() => task.run()}>
            <Download /> {task.busy ? "One moment…" : "Export"}
          </Button>
        </div>
        {task.error === null ? null : <AdminError error={task.error} title="Not exported" />}
      </div>
      <LoadingLine running={query.isFetching || task.busy} />
      <div className={admin.body}>
        {all === undefined ? (
          query.error === null ? (
            <Skeleton />
          ) : (
            <div className={admin.failed}>
              <AdminError
                error={query.error}
                title="The screens could not be read"
                onRetry={() => void query.refetch()}
              />
            </div>
          )
        ) : all.length === 0 ? (
          <EmptyState icon={<LayoutDashboard />} title="No screen is saved yet">
            Whoever saves a screen finds it here. Screens of another deployment come in by Import screens.
          </EmptyState>
        ) : (
          <ul className={css.list} aria-label="Screens">
            <li>
              <Checkbox
                label={<strong>All that are shown</strong>}
                checked={shown.length > 0 && chosen.length === shown.length}
                onChange={({ target }) => setWithout(new Set(target.checked ? [] : shown.map(({ name }) => name)))}
              />
            </li>
            {shown.map((screen) => (
              <li key={screen.name}>
                <Checkbox
                  label={
                    <>
                      {oneLine(screen.name)}
                      <span className={css.about}>
                        {screen.folder === null ? "" : `${oneLine(screen.folder)} · `}version {screen.version},{" "}
                        {formatTime(Date.parse(screen.updated_at), { digits: 0 })} by {screen.updated_by}
                      </span>
                    </>
                  }
                  checked={!without.has(screen.name)}
                  onChange={({ target }) => {
                    const next = new Set(without);
                    if (target.checked) {
                      next.delete(screen.name);
                    } else {
                      next.add(screen.name);
                    }
                    setWithout(next);
                  }}
                />
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}

const countWords = (count: number): string => (count === 1 ? "1 screen" : `${formatNumber(count)} screens`);
