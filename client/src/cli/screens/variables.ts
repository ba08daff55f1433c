/** The variables of a screen, by the rules of the page that shows it (`checkVariables` of the web application). */
import { isObject } from "../../shared/is-object.js";

/** What keeps the page from saving it, in a sentence, or null. */
export function variableProblem(config: Readonly<Record<string, unknown>>): string | null {
  const taken = new Set<string>();
  for (const { name: given } of cellsOf(config).filter(({ kind }) => kind === "variable")) {
    const name = typeof given === "string" ? given : "";
    const problem = taken.has(name) ? "another variable has that name" : nameProblem(name);
    if (problem !== null) {
      return `a variable cannot be called “${name}”: ${problem}`;
    }
    taken.add(name);
  }
  return null;
}

/** Those in groups too. */
function cellsOf({ cells }: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>[] {
  return Array.isArray(cells)
    ? cells.filter(isObject).flatMap((cell) => (cell["kind"] === "group" ? cellsOf(cell) : [cell]))
    : [];
}

function nameProblem(name: string): string | null {
  if (name === "interval") {
    return "$interval is the seconds of a bucket";
  }
  return /^[A-Za-z_]\w{0,40}$/u.test(name) ? null : "letters, digits and _, the first no digit, at most 41";
}
