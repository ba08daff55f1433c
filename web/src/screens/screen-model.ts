/**
 * What a screen holds: cells from top to bottom. It comes from the server as JSON that anybody may have written, so
 * every member is looked at.
 */
import { isObject } from "telemetry-service-client/shared/is-object";
import { variableProblem } from "telemetry-service-client/shared/screen-variables";

import { PlainError } from "../api/error.js";
import { capital } from "../ui/format.js";

/** Version of the configuration that this release writes. */
export const screenFormat = 1;

export interface MarkdownCell {
  readonly kind: "markdown";
  readonly id: string;
  readonly text: string;
}

/** A chart: of its columns, the first time is the axis, numbers are values, and the first text tells series apart. */
export interface ChartCell {
  readonly kind: "chart";
  readonly id: string;
  readonly title: string;
  readonly sql: string;
  readonly look: "lines" | "bars";
  readonly unit: string;
}

export interface TableCell {
  readonly kind: "table";
  readonly id: string;
  readonly title: string;
  readonly sql: string;
}

/** Log records, newest first. */
export interface LogCell {
  readonly kind: "log";
  readonly id: string;
  readonly title: string;
  /** A condition in SQL; empty: all. */
  readonly where: string;
}

/** The spans of a trace as a tree. */
export interface TraceCell {
  readonly kind: "trace";
  readonly id: string;
  readonly title: string;
  /** Its id, or a variable that holds it. */
  readonly trace: string;
}

/** Rows as points in the scene of a map. */
export interface MapCell {
  readonly kind: "map";
  readonly id: string;
  readonly title: string;
  /** Of the map; empty: none is chosen. */
  readonly file: string;
  /** Its columns `x`, `y` and `z` are the place, `label` and `value` what there is. */
  readonly sql: string;
}

/** A value that people choose, and that other cells name as `$name`. */
export interface VariableCell {
  readonly kind: "variable";
  readonly id: string;
  readonly name: string;
  readonly label: string;
  readonly type: "text" | "number";
  /** Until somebody chooses. */
  readonly value: string;
  /** Its first column is what there is to choose from; empty: it is typed. */
  readonly sql: string;
}

export type LeafCell = MarkdownCell | ChartCell | TableCell | LogCell | TraceCell | MapCell | VariableCell;

/** Cells side by side. */
export interface GroupCell {
  readonly kind: "group";
  readonly id: string;
  readonly cells: readonly LeafCell[];
}

export type Cell = LeafCell | GroupCell;
export type CellKind = Cell["kind"];

export interface ScreenConfig {
  readonly format: typeof screenFormat;
  readonly cells: readonly Cell[];
}

/** Why a configuration is none; a sentence for people. */
export class ScreenError extends PlainError {
  override readonly name = "ScreenError";
}

/** @throws ScreenError for one of a newer release, or with a cell that is none. */
export function parseScreen(config: unknown): ScreenConfig {
  if (!isObject(config)) {
    throw new ScreenError("This is no screen: it holds no object.");
  }
  const { format = screenFormat, cells = [] } = config;
  if (format !== screenFormat) {
    throw new ScreenError(
      `This screen has format ${String(format)}, and this release reads ${screenFormat}: upgrade the service.`,
    );
  }
  if (!Array.isArray(cells)) {
    throw new ScreenError("This is no screen: its cells are no list.");
  }
  const taken = new Set<string>();
  return { format: screenFormat, cells: cells.map((cell) => parseCell(cell, taken, true)) };
}

/** @param taken ids of the cells before, to which that of this one is added */
function parseCell(cell: unknown, taken: Set<string>, groups: true): Cell;
function parseCell(cell: unknown, taken: Set<string>, groups: false): LeafCell;
function parseCell(cell: unknown, taken: Set<string>, groups: boolean): Cell {
  if (!isObject(cell)) {
    throw new ScreenError("This is no screen: one of its cells is no object.");
  }
  const text = (name: string): string => {
    const value = cell[name];
    return typeof value === "string" ? value : "";
  };
  // Who copies a cell in a file may leave its id; each is edited by its own, the same whenever the screen is read.
  let id = text("id");
  for (let place = taken.size; id === "" || taken.has(id); place++) {
    id = `cell-${place}`;
  }
  taken.add(id);
  const { kind } = cell;
  switch (kind) {
    case "markdown":
      return { kind, id, text: text("text") };
    case "chart":
      return {
        kind,
        id,
        title: text("title"),
        sql: text("sql"),
        look: cell["look"] === "bars" ? "bars" : "lines",
        unit: text("unit"),
      };
    case "table":
      return { kind, id, title: text("title"), sql: text("sql") };
    case "log":
      return { kind, id, title: text("title"), where: text("where") };
    case "trace":
      return { kind, id, title: text("title"), trace: text("trace") };
    case "map":
      return { kind, id, title: text("title"), file: text("file"), sql: text("sql") };
    case "variable":
      return {
        kind,
        id,
        name: text("name"),
        label: text("label"),
        type: cell["type"] === "number" ? "number" : "text",
        value: text("value"),
        sql: text("sql"),
      };
    case "group":
      if (groups && Array.isArray(cell["cells"])) {
        return { kind, id, cells: cell["cells"].map((each) => parseCell(each, taken, false)) };
      }
      throw new ScreenError("This is no screen: a group holds cells, and no groups.");
    default:
      throw new ScreenError(
        `This release has no cell of the kind ${JSON.stringify(kind ?? null)}: upgrade the service.`,
      );
  }
}

/** A new cell of a kind, to be filled in. */
export function newCell(kind: CellKind): Cell {
  const id = newId();
  switch (kind) {
    case "markdown":
      return { kind, id, text: "## A heading\n\nWhat this is about." };
    case "chart":
      return {
        kind,
        id,
        title: "Log records",
        sql: "SELECT date_bin(to_seconds($interval), time) AS time, level_name, count(*) AS records\nFROM log_entries\nGROUP BY ALL\nORDER BY time",
        look: "bars",
        unit: "",
      };
    case "table":
      return {
        kind,
        id,
        title: "Services",
        sql: "SELECT service_name, count(*) AS records\nFROM log_entries\nGROUP BY ALL\nORDER BY records DESC",
      };
    case "log":
      return { kind, id, title: "Errors", where: "level_name = 'error'" };
    case "trace":
      return { kind, id, title: "Trace", trace: "$trace" };
    case "map":
      return {
        kind,
        id,
        title: "Map",
        file: "",
        sql: "SELECT try_cast(attr(properties, 'x') AS DOUBLE) AS x, try_cast(attr(properties, 'y') AS DOUBLE) AS y,\n  try_cast(attr(properties, 'z') AS DOUBLE) AS z, msg AS label\nFROM log_entries\nWHERE attr(properties, 'x') IS NOT NULL\nORDER BY time DESC",
      };
    case "variable":
      return {
        kind,
        id,
        name: "service",
        label: "Service",
        type: "text",
        value: "",
        sql: "SELECT DISTINCT service_name FROM processes ORDER BY 1",
      };
    case "group":
      return { kind, id, cells: [] };
  }
}

/** The variables of a screen, those in groups too, in their order. */
export function variablesOf({ cells }: ScreenConfig): VariableCell[] {
  return cells
    .flatMap((cell) => (cell.kind === "group" ? cell.cells : [cell]))
    .filter((cell) => cell.kind === "variable");
}

/** Sees to it that each `$name` means one variable. @throws ScreenError */
export function checkVariables(config: ScreenConfig): void {
  const problem = variableProblem(variablesOf(config).map(({ name }) => name));
  if (problem !== null) {
    throw new ScreenError(`${capital(problem)}. Give it another name.`);
  }
}

/** What a cell is called in lists. */
export function titleOf(cell: Cell): string {
  switch (cell.kind) {
    case "markdown":
      return (
        cell.text
          .split("\n", 1)[0]
          ?.replace(/^#+\s*/, "")
          .slice(0, 60) || "Text"
      );
    case "variable":
      return cell.label || cell.name;
    case "group":
      return `Group of ${cell.cells.length}`;
    case "chart":
    case "table":
    case "log":
    case "trace":
    case "map":
      return cell.title || cell.kind;
  }
}

/** What people change of a screen. */
export interface ScreenState {
  readonly config: ScreenConfig;
  readonly folder: string | null;
}

/** What differs between two states of a screen, a line a cell. */
export function differencesOf(from: ScreenState, to: ScreenState): string[] {
  const before = from.config;
  const after = to.config;
  const folder =
    from.folder === to.folder
      ? []
      : [to.folder === null ? "moved out of its folder" : `moved to the folder ${to.folder}`];
  const old = new Map(before.cells.map((cell) => [cell.id, cell]));
  const added = after.cells.filter(({ id }) => !old.has(id)).map((cell) => `added: ${titleOf(cell)}`);
  const changed = after.cells
    .filter((cell) => old.has(cell.id) && JSON.stringify(old.get(cell.id)) !== JSON.stringify(cell))
    .map((cell) => `changed: ${titleOf(cell)}`);
  const now = new Set(after.cells.map(({ id }) => id));
  const gone = before.cells.filter(({ id }) => !now.has(id)).map((cell) => `removed: ${titleOf(cell)}`);
  const kept = (state: ScreenConfig): string =>
    state.cells.flatMap(({ id }) => (old.has(id) && now.has(id) ? [id] : [])).join(" ");
  const moved = kept(before) === kept(after) ? [] : ["moved: the order of cells"];
  return [...folder, ...added, ...changed, ...gone, ...moved];
}

let ids = 0;

function newId(): string {
  return `${Date.now().toString(36)}${(ids++).toString(36)}`;
}
