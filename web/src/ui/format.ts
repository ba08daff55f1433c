/** One formatter for each kind of value. All take what the server says, and show nothing that is not there. */

/** The zone that times are shown in unless a caller names one; null: that of the browser. */
let shownZone: string | null = null;

/** Chooses the zone; what is on the screen has to be rendered again. */
export function showTimesIn(timeZone: string | null): void {
  shownZone = timeZone;
}

/** Name of the zone that times are shown in, and typed in where they name none. */
export function zoneName(): string {
  return shownZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** What is shown where there is no value. */
export const nothing = "–";

const controls = /\p{Cc}/gu;
const marks = /[\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Text of others on one line: its control characters as pictures (␊), so that nothing hides behind a line break, and
 * without the marks that reorder what stands beside them.
 */
export function oneLine(text: string): string {
  const picture = (control: string): string => {
    const code = control.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "␡" : "�";
  };
  return text.replace(controls, picture).replace(marks, "");
}

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 20 });
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const significant = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4, useGrouping: true });

/** In full, in groups of three digits. */
export function formatNumber(value: number | bigint): string {
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : grouped.format(value);
}

/** Short, for axes, tiles and counts that may be rough: 1.23M. */
export function formatCompact(value: number): string {
  const size = Math.abs(value);
  return size >= 10_000 ? compact.format(value) : significant.format(value);
}

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 1.5 MiB */
export function formatBytes(bytes: number): string {
  const power = Math.min(byteUnits.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, Math.abs(bytes))) / 10)));
  const value = bytes / 1024 ** power;
  return `${power === 0 ? value : rounded(value)} ${byteUnits[power]}`;
}

/** Three significant digits from the unit that leaves at least 1: 850 ns, 1.23 ms, 12.5 s, 2 min 5 s, 3 h 20 min, 4 d 2 h. */
export function formatDuration(nanoseconds: number): string {
  const size = Math.abs(nanoseconds);
  const sign = nanoseconds < 0 ? "-" : "";
  for (const [unit, name, end] of shortUnits) {
    const value = rounded(size / unit);
    if (value < end) {
      return `${sign}${value} ${name}`;
    }
  }
  const seconds = Math.round(size / 1e9);
  if (seconds < 3600) {
    return sign + pair(seconds, 60, "min", "s");
  }
  const minutes = Math.round(seconds / 60);
  return sign + (minutes < 24 * 60 ? pair(minutes, 60, "h", "min") : pair(Math.round(minutes / 60), 24, "d", "h"));
}

/** Milliseconds, as {@link formatDuration}. */
export function formatMilliseconds(milliseconds: number): string {
  return formatDuration(milliseconds * 1e6);
}

function pair(value: number, base: number, large: string, small: string): string {
  const rest = value % base;
  return rest === 0 ? `${value / base} ${large}` : `${Math.floor(value / base)} ${large} ${rest} ${small}`;
}

/** Nanoseconds, and from where on the next one is shown, after rounding. */
const shortUnits = [
  [1, "ns", 1000],
  [1e3, "µs", 1000],
  [1e6, "ms", 1000],
  [1e9, "s", 60],
] as const;

function rounded(value: number): number {
  return Number(value.toPrecision(3));
}

interface TimeParts {
  readonly date: string;
  readonly time: string;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function partsOf(epochMs: number, timeZone: string | null): TimeParts {
  const zone = timeZone ?? "";
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("en-CA", {
      ...(timeZone === null ? {} : { timeZone }),
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
    });
    formats.set(zone, format);
  }
  const parts = Object.fromEntries(format.formatToParts(epochMs).map(({ type, value }) => [type, value]));
  return {
    date: `${parts["year"]?.padStart(4, "0")}-${parts["month"]}-${parts["day"]}`,
    time: `${parts["hour"]}:${parts["minute"]}:${parts["second"]}`,
  };
}

/**
 * A time in the chosen zone.
 * @param epoch nanoseconds as a bigint, or milliseconds as a number.
 * @param o.date whether the date is shown; @param o.digits of the fraction of a second.
 */
export function formatTime(
  epoch: bigint | number,
  o: { readonly date?: boolean; readonly digits?: 0 | 3 | 6 | 9; readonly timeZone?: string | null } = {},
): string {
  const ns = typeof epoch === "bigint" ? epoch : BigInt(Math.round(epoch * 1e3)) * 1000n;
  const fraction = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const ms = Number((ns - fraction) / 1_000_000n);
  if (!(ms >= firstYearMs && ms <= lastDateMs)) {
    return formatTimeExact(ns);
  }
  const { date, time } = partsOf(ms, o.timeZone === undefined ? shownZone : o.timeZone);
  const digits = o.digits ?? 3;
  const clock = digits === 0 ? time : `${time}.${fraction.toString().padStart(9, "0").slice(0, digits)}`;
  return o.date === false ? clock : `${date} ${clock}`;
}

/**
 * The moment at which clocks of the chosen zone show what one in UTC shows at `wallMs`: the later of two, and as long
 * after the change as it says where clocks skip it.
 */
export function momentOfClock(wallMs: number): number {
  const found = [-dayMs, dayMs].map((by) => wallMs + by - clockAt(wallMs + by) + wallMs);
  const right = found.filter((ms) => clockAt(ms) === wallMs);
  return Math.max(...(right.length === 0 ? found : right));
}

/** What clocks of the chosen zone show, as the moment at which one in UTC shows the same. */
export function clockAt(ms: number): number {
  return Date.parse(`${formatTime(ms).replace(" ", "T")}Z`);
}

const dayMs = 86_400_000;

/** From here on years need no sign. */
const firstYearMs = Date.parse("0001-01-03");
/** The last moment that a Date holds. SQL has later ones, and `infinity`. */
export const lastDateMs = 8.64e15;

/** In full and in UTC, for hover and for copying: 2026-01-02T03:04:05.123456789Z; nanoseconds since 1970 where no date is known. */
export function formatTimeExact(epochNs: bigint): string {
  const fraction = ((epochNs % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const iso = isoOf(epochNs - fraction);
  return iso === null ? `${epochNs} ns` : `${iso.slice(0, -".000Z".length)}.${fraction.toString().padStart(9, "0")}Z`;
}

/** 2026-01-02, of midnight in UTC. */
export function formatDate(epochNs: bigint): string {
  return isoOf(epochNs)?.replace(/T.*/, "") ?? `${epochNs} ns`;
}

function isoOf(epochNs: bigint): string | null {
  const ms = Number(epochNs / 1_000_000n);
  return Math.abs(ms) <= lastDateMs ? new Date(ms).toISOString() : null;
}

/** "3 min ago" */
export function formatAge(epochMs: number, nowMs: number): string {
  const seconds = Math.round((nowMs - epochMs) / 1000);
  if (Math.abs(seconds) < 5) {
    return "just now";
  }
  const size = Math.abs(seconds);
  const [value, unit] =
    size < 60
      ? [size, "s"]
      : size < 3600
        ? [Math.round(size / 60), "min"]
        : size < 86_400
          ? [Math.round(size / 3600), "h"]
          : [Math.round(size / 86_400), "d"];
  return seconds > 0 ? `${value} ${unit} ago` : `in ${value} ${unit}`;
}

/** Per second, minute or hour, so that the number is at least 1 where it can be: 12.3/s, 4/min, 2/h. */
export function formatRate(perSecond: number): string {
  const size = Math.abs(perSecond);
  return size === 0
    ? "0/s"
    : size >= 1
      ? `${formatCompact(Number(perSecond.toPrecision(3)))}/s`
      : size >= 1 / 60
        ? `${rounded(perSecond * 60)}/min`
        : `${rounded(perSecond * 3600)}/h`;
}

/** 12.3% */
export function formatPercent(fraction: number): string {
  return `${rounded(fraction * 100)}%`;
}

/** "1 row", "2,000 rows" */
export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}

/** With a capital letter at its beginning. */
export const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);
