/** Times and lengths of time that are written out in a statement. */
import { LocalOnly } from "./spark-types.js";

const second = 1_000_000_000n;

const units: Readonly<Record<string, bigint>> = {
  microsecond: 1000n,
  millisecond: 1_000_000n,
  second,
  minute: 60n * second,
  hour: 3600n * second,
  day: 86_400n * second,
  week: 7n * 86_400n * second,
};

const shortUnits: Readonly<Record<string, string>> = {
  us: "microsecond",
  ms: "millisecond",
  s: "second",
  sec: "second",
  m: "minute",
  min: "minute",
  h: "hour",
  hr: "hour",
  d: "day",
  w: "week",
};

/** Nanoseconds of a unit of fixed length, by its name in lower case and the plural. @throws LocalOnly */
export function unitNs(name: string): bigint {
  const lower = name.toLowerCase();
  const singular = lower.length > 2 ? lower.replace(/s$/u, "") : lower;
  const ns = units[shortUnits[singular] ?? singular];
  if (ns === undefined) {
    throw new LocalOnly(`a length of time in ${lower}`);
  }
  return ns;
}

/** Nanoseconds of `1 hour` and the like. @throws LocalOnly */
export function intervalNs(text: string): bigint {
  const { number, unit } = /^\s*(?<number>-?\d{1,9})\s*(?<unit>[a-zA-Z]+)\s*$/u.exec(text)?.groups ?? {};
  if (number === undefined || unit === undefined) {
    throw new LocalOnly("a length of time of several parts");
  }
  return BigInt(number) * unitNs(unit);
}

const timeForm =
  /^\s*(?<date>\d{4}-\d{2}-\d{2})(?:[ T](?<clock>\d{2}:\d{2}(?::\d{2})?)(?:\.(?<fraction>\d{1,9}))?)?Z?\s*$/u;

/** Nanoseconds since 1970 UTC of a time without an offset. @throws LocalOnly */
export function timeNs(text: string): bigint {
  const { date, clock = "00:00:00", fraction = "" } = timeForm.exec(text)?.groups ?? {};
  const ms = date === undefined ? Number.NaN : Date.parse(`${date}T${clock.length === 5 ? `${clock}:00` : clock}Z`);
  if (Number.isNaN(ms) || (clock.length === 5 && fraction !== "") || new Date(ms).toISOString().slice(0, 10) !== date) {
    throw new LocalOnly("a time that is written in another way than 2026-01-31 13:00:00");
  }
  return BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, "0"));
}
