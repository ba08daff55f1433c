/** Title, whose data, time range, refresh, and who is logged in. */
import { CircleUser, Globe, LogOut, RefreshCw } from "lucide-react";
import { type ReactElement, useState } from "react";

import { wordsOf } from "../../api/error.js";
import { useDataSources, useMyAudiences } from "../../api/routes.js";
import { logOut, usePerson } from "../../api/session.js";
import {
  Button,
  IconButton,
  Joined,
  Menu,
  MenuItem,
  MenuRadio,
  MenuSeparator,
  Select,
} from "../../ui/controls/controls.js";
import { formatTime } from "../../ui/format.js";
import { toast } from "../../ui/toast.js";
import { TimeRangePicker } from "./time-range-picker.js";
import { useScope } from "../scope.js";
import { changeSettings, type Theme, useSettings } from "../settings.js";
import css from "./shell.module.css";
import { refreshIntervals, useTimeRange } from "../time-range-context.js";
import { TimeZoneDialog } from "./time-zone-dialog.js";

export function TopBar({ title, hasRange }: { readonly title: string; readonly hasRange: boolean }): ReactElement {
  return (
    <header className={css.top}>
      <h1>{title}</h1>
      {hasRange ? <PrintedRange /> : null}
      <div className={css.tools}>
        {hasRange ? (
          <>
            <DataSourceSelect />
            <AudienceSelect />
            <Range />
          </>
        ) : null}
        <UserMenu />
      </div>
    </header>
  );
}

/** Paper has no control that shows it. */
function PrintedRange(): ReactElement {
  const { resolved } = useTimeRange();
  const { timeZone } = useSettings();
  const [begin, end] = [resolved.beginMs, resolved.endMs].map((ms) => formatTime(ms, { digits: 0 }));
  return (
    <p
      className="printed"
      data-says={`${begin} to ${end} ${timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone}`}
    />
  );
}

function Range(): ReactElement {
  const { range, resolved, setRange, interval, setInterval, refresh } = useTimeRange();
  return (
    <>
      <TimeRangePicker range={range} resolved={resolved} onChange={setRange} />
      <Joined label="Refresh">
        <IconButton label="Refresh" look="plain" onClick={refresh}>
          <RefreshCw />
        </IconButton>
        <Menu
          trigger={
            <Button aria-label={`Refresh by itself: ${interval ?? "off"}`}>
              {interval === null ? "Off" : interval}
            </Button>
          }
        >
          <MenuRadio
            label="Refresh by itself"
            value={interval ?? ""}
            options={[
              { value: "", label: "Off" },
              ...refreshIntervals.map((each) => ({ value: each, label: `Every ${each}` })),
            ]}
            onChange={(next) => setInterval(next === "" ? null : next)}
          />
        </Menu>
      </Joined>
    </>
  );
}

/** Only where there is a choice. */
function AudienceSelect(): ReactElement | null {
  const { audience, setAudience } = useScope();
  const { data } = useMyAudiences();
  const known = data?.read ?? [];
  const names = audience === null || known.includes(audience) ? known : [...known, audience];
  if (names.length < 2 && audience === null) {
    return null;
  }
  return (
    <Select
      label="Audience"
      className={css.choice}
      value={audience ?? ""}
      options={[{ value: "", label: "All audiences" }, ...names.map((name) => ({ value: name, label: name }))]}
      onChange={(next) => setAudience(next === "" ? null : next)}
    />
  );
}

/** Only where there is a choice. */
function DataSourceSelect(): ReactElement | null {
  const { source, setSource } = useScope();
  const { data } = useDataSources();
  if (data === undefined || data.length < 2) {
    return null;
  }
  const standard = data.find((each) => each.is_default)?.name ?? data[0]?.name ?? "";
  return (
    <Select
      label="Data source"
      className={css.choice}
      value={source ?? standard}
      options={data.map(({ name }) => ({ value: name, label: name }))}
      onChange={(next) => setSource(next === standard ? null : next)}
    />
  );
}

const themes: readonly { readonly value: Theme; readonly label: string }[] = [
  { value: "system", label: "As the system" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

function UserMenu(): ReactElement {
  const person = usePerson();
  const { theme, timeZone } = useSettings();
  const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const [choosingZone, setChoosingZone] = useState(false);
  const leave = (): void => {
    logOut().catch((error: unknown) => toast("Not logged out", wordsOf(error), "error"));
  };
  const menu = (
    <Menu
      trigger={
        <IconButton label={`${person.email ?? person.name}: settings and logout`}>
          <CircleUser />
        </IconButton>
      }
    >
      <div className={css.who}>
        <strong>{person.name}</strong>
        <span>{person.email ?? person.subject}</span>
        {person.isAdmin ? <span> · administrator</span> : null}
      </div>
      <MenuSeparator />
      <MenuRadio
        label="Theme"
        value={theme}
        options={themes}
        onChange={(next) => changeSettings({ theme: themes.find(({ value }) => value === next)?.value ?? "system" })}
      />
      <MenuSeparator />
      <MenuRadio
        label="Times are shown in"
        value={timeZone ?? ""}
        options={[
          { value: "", label: `${local} (here)` },
          ...(local === "UTC" ? [] : [{ value: "UTC", label: "UTC" }]),
          ...(timeZone === null || timeZone === "UTC" ? [] : [{ value: timeZone, label: timeZone }]),
        ]}
        onChange={(next) => changeSettings({ timeZone: next === "" ? null : next })}
      />
      <MenuItem onClick={() => setChoosingZone(true)}>
        <Globe /> Another time zone
      </MenuItem>
      <MenuSeparator />
      <MenuItem onClick={leave}>
        <LogOut /> Log out
      </MenuItem>
    </Menu>
  );
  return (
    <>
      {menu}
      {choosingZone ? (
        <TimeZoneDialog onChoose={(timeZone) => changeSettings({ timeZone })} onClose={() => setChoosingZone(false)} />
      ) : null}
    </>
  );
}
