/**
 * What a screen shows, as far as the server judges it: what web/src/screens/screen-model.ts cannot read is refused when it
 * is saved. Members that nobody knows stay, and those that are missing have a default there, as earlier releases wrote them.
 */
import { isObject } from "telemetry-service-client/shared/is-object";
import { ServiceError } from "../../runtime/errors.js";
import { type Field, type JsonBounds, jsonObjectField } from "./fields.js";

/** Version of the configuration that this release reads. What a newer one has written, it keeps as it is. */
const knownFormat = 1;

/** Members that are text, by the kind of a cell. */
const texts: Readonly<Record<string, readonly string[]>> = {
  markdown: ["text"],
  chart: ["title", "sql", "look", "unit"],
  table: ["title", "sql"],
  log: ["title", "where"],
  trace: ["title", "trace"],
  map: ["title", "file", "sql"],
  variable: ["name", "label", "type", "value", "sql"],
  group: [],
};

const bad = (message: string): ServiceError => new ServiceError("BAD_REQUEST", message);

/** The configuration of a screen within bounds; it reads to its text. */
export function screenField(o: JsonBounds): Field<string> {
  const json = jsonObjectField(o);
  return {
    ...json,
    read(value, name) {
      const text = json.read(value, name);
      if (isObject(value)) {
        checkScreen(value, name);
      }
      return text;
    },
  };
}

function checkScreen(config: Readonly<Record<string, unknown>>, name: string): void {
  const { format = knownFormat, cells = [] } = config;
  if (typeof format !== "number" || !Number.isSafeInteger(format) || format < knownFormat) {
    throw bad(`${name}.format must be ${knownFormat}, or that of a newer release`);
  }
  if (format === knownFormat) {
    checkCells(cells, `${name}.cells`, Object.keys(texts));
  }
}

/** @param kinds that these cells may be of */
function checkCells(cells: unknown, name: string, kinds: readonly string[]): void {
  if (!Array.isArray(cells)) {
    throw bad(`${name} must be a list of cells`);
  }
  for (const [place, cell] of (cells as readonly unknown[]).entries()) {
    const own = `${name}[${place}]`;
    if (!isObject(cell)) {
      throw bad(`${own} must be a JSON object`);
    }
    const { kind } = cell;
    if (typeof kind !== "string" || !kinds.includes(kind)) {
      throw bad(`${own}.kind must be one of ${kinds.join(", ")}`);
    }
    for (const member of ["id", ...(texts[kind] ?? [])]) {
      if (cell[member] !== undefined && typeof cell[member] !== "string") {
        throw bad(`${own}.${member} must be a string`);
      }
    }
    if (kind === "group") {
      // A group holds no groups.
      checkCells(
        cell["cells"],
        `${own}.cells`,
        kinds.filter((other) => other !== "group"),
      );
    }
  }
}
