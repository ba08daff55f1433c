/** Reads an option table from variables and flags; the roles are wired in parse.ts. */

import { type OptionRow, type OptionTable, flagOf, isVariable } from "./table.js";

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Options that cannot be used: every problem at once, one sentence each. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join("\n"));
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** Flags of a command line, before their values are read. */
interface FlagTexts {
  /** Text by option name; a bare flag of a switch reads `true`. The last one given counts. */
  readonly texts: ReadonlyMap<string, string>;
  /** What is not a flag, and everything after `--`. */
  readonly positionals: readonly string[];
  readonly problems: readonly string[];
}

/** Splits arguments into the flags of `table` and the rest. `--name value` and `--name=value` mean the same. */
export function readFlags(table: OptionTable, argv: readonly string[]): FlagTexts {
  const nameByFlag = new Map(Object.keys(table).map((name) => [flagOf(name), name]));
  const texts = new Map<string, string>();
  const positionals: string[] = [];
  const problems: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const argument = argv[i] ?? "";
    if (argument === "--") {
      positionals.push(...argv.slice(i + 1));
      break;
    }
    if (!argument.startsWith("-") || argument === "-") {
      positionals.push(argument);
      continue;
    }
    const equals = argument.indexOf("=");
    const flag = equals === -1 ? argument : argument.slice(0, equals);
    const name = nameByFlag.get(flag);
    if (name === undefined) {
      const hint = suggestion(flag, ["--help", ...nameByFlag.keys()]) || "; --help lists them";
      problems.push(`${flag} is not a known flag${hint}`);
      continue;
    }
    const next = argv[i + 1];
    if (equals !== -1) {
      texts.set(name, argument.slice(equals + 1));
    } else if (table[name]?.kind.isSwitch === true) {
      texts.set(name, "true");
    } else if (next === undefined || next.startsWith("--")) {
      problems.push(`${flag} needs a value: ${table[name]?.kind.takes ?? ""}`);
    } else {
      texts.set(name, next);
      i++;
    }
  }
  return { texts, positionals, problems };
}

/** Where a value may come from, first match first. */
interface Source {
  /** What a problem is reported under: `SVC_X` or `--x`. */
  readonly label: string;
  readonly text: string | undefined;
}

/** Reads one option: the first source that has a text decides, else the default. */
export function readValue(o: OptionRow, sources: readonly Source[], problems: string[]): unknown {
  for (const { label, text } of sources) {
    if (text === undefined || (text === "" && o.emptyAllowed !== true && !label.startsWith("--"))) {
      continue;
    }
    const parsed = o.kind.parse(text);
    if (parsed.ok && (text !== "" || o.emptyAllowed === true)) {
      return parsed.value;
    }
    const why = parsed.ok || parsed.why === undefined ? "" : `; ${parsed.why}`;
    problems.push(`${label} takes ${o.kind.takes}${why}${o.secret === true ? "" : `; got ${quote(text)}`}`);
    return o.default;
  }
  return o.default;
}

/**
 * Where an option's value may come from: flags, then variables.
 * @param names the forms of the option's name, most specific first
 */
export function sourcesOf(names: readonly string[], flags: ReadonlyMap<string, string>, env: Environment): Source[] {
  return [
    ...names.map((name) => ({ label: flagOf(name), text: flags.get(name) })),
    ...names.filter(isVariable).map((name) => ({ label: name, text: env[name] })),
  ];
}

/** `; did you mean X?` when a candidate is close, else nothing. */
export function suggestion(given: string, candidates: readonly string[]): string {
  let best = "";
  let bestDistance = Math.max(2, Math.floor(given.length / 4)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(given, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best === "" ? "" : `; did you mean ${best}?`;
}

/** Levenshtein distance: single characters inserted, removed or replaced. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** A value in an error message: quoted, cut when long. */
function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}...` : text);
}
