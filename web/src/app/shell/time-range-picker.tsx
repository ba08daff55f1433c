/** Chooses a time range: one of the usual ones, or any by its two ends. */
import { Popover } from "@base-ui/react/popover";
import { ChevronLeft, ChevronRight, Clock, ZoomOut } from "lucide-react";
import { type ReactElement, useState } from "react";

import { serverNow } from "../../api/server-clock.js";
import controls from "../../ui/controls/controls.module.css";
import { Button, TextField } from "../../ui/controls/controls.js";
import { formatTime, zoneName } from "../../ui/format.js";
import {
  isRange,
  movedRange,
  parseMoment,
  quickRanges,
  relativeName,
  type ResolvedRange,
  type TimeRange,
  widerRange,
} from "../../ui/time-range.js";
import css from "./time-range-picker.module.css";

interface PickerProps {
  readonly range: TimeRange;
  readonly resolved: ResolvedRange;
  readonly onChange: (range: TimeRange) => void;
}

export function TimeRangePicker(o: PickerProps): ReactElement {
  const [open, setOpen] = useState(false);
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger
        render={
          <Button title={`${formatTime(o.resolved.beginMs)} to ${formatTime(o.resolved.endMs)}`}>
            <Clock /> <span className="visually-hidden">Time range: </span>
            {nameOf(o)}
          </Button>
        }
      />
      <Popover.Portal>
        <Popover.Positioner sideOffset={4} align="end" className={controls.positioner}>
          <Popover.Popup className={css.popup} aria-label="Time range">
            <Choices
              {...o}
              onChange={(range) => {
                o.onChange(range);
                setOpen(false);
              }}
            />
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

/** The words for a range: short where both ends are on one day. */
function nameOf({ range, resolved }: PickerProps): string {
  const relative = relativeName(range);
  if (relative !== null) {
    return relative;
  }
  const digits = resolved.endMs - resolved.beginMs < 10_000 ? 3 : 0;
  const begin = formatTime(resolved.beginMs, { digits });
  const end = formatTime(resolved.endMs, { digits });
  return `${begin} – ${begin.slice(0, 10) === end.slice(0, 10) ? end.slice(11) : end}`;
}

function Choices({ range, resolved, onChange }: PickerProps): ReactElement {
  const [from, setFrom] = useState(() => shown(range.from));
  const [to, setTo] = useState(() => shown(range.to));
  const nowMs = serverNow();
  const next = { from: meant(from, range.from), to: meant(to, range.to) };
  const fromProblem = parseMoment(next.from, nowMs) === null ? "No time: try now-1h or 2026-01-31 09:00" : null;
  const toProblem = parseMoment(next.to, nowMs) === null ? "No time: try now or 2026-01-31 10:00" : null;
  const good = isRange(next, nowMs);
  const order = fromProblem === null && toProblem === null && !good ? "It ends before it begins" : null;
  return (
    <>
      <form
        className={css.own}
        onSubmit={(event) => {
          event.preventDefault();
          if (good) {
            onChange(next);
          }
        }}
      >
        <TextField label="From" value={from} problem={fromProblem} onChange={(e) => setFrom(e.target.value)} />
        <TextField
          label="To"
          hint={`Times of ${zoneName()}`}
          value={to}
          problem={toProblem ?? order}
          onChange={(e) => setTo(e.target.value)}
        />
        <Button look="primary" type="submit" disabled={!good}>
          Apply
        </Button>
        <div className={css.steps}>
          <Button aria-label="Earlier" onClick={() => onChange(movedRange(resolved, -1))}>
            <ChevronLeft />
          </Button>
          <Button onClick={() => onChange(widerRange(resolved, nowMs))}>
            <ZoomOut /> Wider
          </Button>
          <Button aria-label="Later" onClick={() => onChange(movedRange(resolved, 1))}>
            <ChevronRight />
          </Button>
        </div>
      </form>
      <div className={css.quick}>
        {quickRanges.map((each) => (
          <Button
            key={each.from}
            look="quiet"
            aria-pressed={each.from === range.from && each.to === range.to}
            onClick={() => onChange(each)}
          >
            {relativeName(each)}
          </Button>
        ))}
      </div>
    </>
  );
}

/** Absolute ones in the chosen time zone. */
function shown(moment: string): string {
  const ms = moment.startsWith("now") ? null : parseMoment(moment, 0);
  return ms === null ? moment : formatTime(ms);
}

/**
 * What was typed in the chosen time zone, as an address has it.
 * @param before what was shown at first: an hour that a clock shows twice stays the one that it was.
 */
function meant(text: string, before: string): string {
  if (text === shown(before)) {
    return before;
  }
  const ms = text.trim().startsWith("now") ? null : parseMoment(text, 0);
  return ms === null ? text.trim() : new Date(ms).toISOString();
}
