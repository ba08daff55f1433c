/**
 * What Grafana and its Flight SQL plugin (influxdata-flightsql-datasource 1.1) make of a query's text, and which results
 * they can show: written anew after what it does.
 */
import { type Field, type Schema, TimeUnit, Type } from "apache-arrow";

/** What a panel asks for. */
export interface PanelRequest {
  /** Width of a point; the plugin counts whole seconds of it. */
  readonly intervalMs: number;
  readonly from: Date;
  readonly to: Date;
  /** Minutes that the clock of Grafana's machine is ahead of UTC: some macros write times as it shows them. */
  readonly zoneMinutes?: number;
}

/** Values of a dashboard's variables: several of one that takes several. */
export type VariableValues = Readonly<Record<string, string | readonly string[]>>;

/**
 * What the browser does before it sends the query: variables become their values, and so do two names that look like
 * macros. Alert rules have no browser: what it would replace stays.
 */
export function withVariables(text: string, variables: VariableValues, { intervalMs }: PanelRequest): string {
  const quoted = (value: string): string => `'${value.replaceAll("'", "''")}'`;
  return text.replaceAll(/\$\{(\w+)\}|\$(\w+)/gu, (whole, braced?: string, bare?: string) => {
    const name = braced ?? bare ?? "";
    if (name === "__interval_ms") {
      return String(intervalMs);
    }
    if (name === "__interval") {
      return intervalMs % 60_000 === 0 ? `${intervalMs / 60_000}m` : `${intervalMs / 1000}s`;
    }
    const value = variables[name];
    if (value === undefined) {
      return whole;
    }
    return typeof value === "string" ? value.replaceAll("'", "''") : value.map(quoted).join(",");
  });
}

type Macro = (args: readonly string[], request: PanelRequest) => string;

const seconds = ({ intervalMs }: PanelRequest): number => Math.trunc(intervalMs / 1000);
const utc = (time: Date): string => time.toISOString().replace(/\.\d+Z$/u, "Z");

function local(time: Date, zoneMinutes = 0): string {
  if (zoneMinutes === 0) {
    return utc(time);
  }
  const hours = Math.trunc(Math.abs(zoneMinutes) / 60);
  const zone = `${zoneMinutes < 0 ? "-" : "+"}${String(hours).padStart(2, "0")}:${String(Math.abs(zoneMinutes) % 60).padStart(2, "0")}`;
  return utc(new Date(time.getTime() + zoneMinutes * 60_000)).replace("Z", zone);
}

const bin: Macro = ([column = ""], request) =>
  `date_bin(interval '${seconds(request)} second', ${column}, timestamp '1970-01-01T00:00:00Z')`;

const parts = ["minute", "hour", "day", "month", "year"];

function group([column = "", from = ""]: readonly string[], name: (part: string) => string): string {
  return parts
    .slice(parts.indexOf(from))
    .map((part) => `datepart('${part}', ${column})${name(part)}`)
    .join(",");
}

const macros: Readonly<Record<string, Macro>> = {
  dateBin: bin,
  dateBinAlias: (args, request) => `${bin(args, request)} as ${args[0]}_binned`,
  interval: (_, request) => `interval '${seconds(request)} second'`,
  timeFilter: ([column], { from, to }) => `${column} >= '${utc(from)}' AND ${column} <= '${utc(to)}'`,
  timeFrom: (_, { from, zoneMinutes }) => `cast('${local(from, zoneMinutes)}' as timestamp)`,
  timeGroup: (args) => group(args, () => ""),
  timeGroupAlias: (args) => group(args, (part) => ` as ${args[0]}_${part}`),
  timeRange: ([column], { from, to }) => `${column} >= '${utc(from)}' AND ${column} <= '${utc(to)}'`,
  timeRangeFrom: ([column], { from }) => `${column} >= '${utc(from)}'`,
  timeRangeTo: ([column], { to }) => `${column} <= '${utc(to)}'`,
  timeTo: (_, { to, zoneMinutes }) => `cast('${local(to, zoneMinutes)}' as timestamp)`,
};

/** Every macro that the plugin has of its own or of Grafana's library. */
export const macroNames: readonly string[] = Object.keys(macros);

/**
 * What the plugin does before it sends the query. Brackets belong to a macro wherever they are: of one without any, all
 * text to the end of the next pair is dropped, conditions included, unless a bracket around the macro closes before.
 */
export function withMacros(text: string, request: PanelRequest): string {
  let at = 0;
  let expanded = "";
  for (const match of text.matchAll(/\$__(\w+)/gu)) {
    const macro = macros[match[1] ?? ""];
    if (macro === undefined || match.index < at) {
      continue;
    }
    const behind = match.index + match[0].length;
    const brackets = bracketsBehind(text, behind);
    const args = brackets === null ? "" : text.slice(brackets.open + 1, brackets.close);
    expanded +=
      text.slice(at, match.index) +
      macro(
        args.split(",").map((arg) => arg.trim()),
        request,
      );
    at = brackets === null ? behind : brackets.close + 1;
  }
  return expanded + text.slice(at);
}

/** Where the first pair of brackets opens and closes; null when there is none, or a closing one comes first. */
function bracketsBehind(text: string, from: number): { readonly open: number; readonly close: number } | null {
  let open = -1;
  let depth = 0;
  for (let i = from; i < text.length; i++) {
    if (text[i] === "(") {
      open = open === -1 ? i : open;
      depth++;
    } else if (text[i] === ")" && --depth <= 0) {
      return open === -1 ? null : { open, close: i };
    }
  }
  return null;
}

/** Arrow types that the plugin copies into a frame; a column of any other type fails the whole result. */
const taken: ReadonlySet<Type> = new Set([
  Type.Utf8,
  Type.Float,
  Type.Float32,
  Type.Float64,
  Type.Int,
  Type.Int8,
  Type.Int16,
  Type.Int32,
  Type.Int64,
  Type.Uint8,
  Type.Uint16,
  Type.Uint32,
  Type.Uint64,
  Type.Bool,
  Type.Timestamp,
  Type.TimestampNanosecond,
]);

/** What is wrong with a column for the plugin, or null: it also reads times of every unit as nanoseconds. */
function unreadable({ name, type }: Field): string | null {
  const { typeId } = type as { readonly typeId: Type };
  const { unit } = type as { readonly unit?: TimeUnit };
  const isTime = typeId === Type.Timestamp || typeId === Type.TimestampNanosecond;
  return taken.has(typeId) && (!isTime || unit === TimeUnit.NANOSECOND) ? null : `${name}: ${String(type)}`;
}

/** The columns that the plugin cannot read, or reads wrongly. */
export function unreadableColumns(schema: Schema): string[] {
  return schema.fields.map(unreadable).filter((problem) => problem !== null);
}
