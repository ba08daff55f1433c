/** Options of benches: what a wrong one gets is a sentence, and `--help` lists them. */
import { parseArgs } from "node:util";

/** One option: the text after `--name` becomes a `T`. */
interface Option<T> {
  /** Null: left out unless it is given. */
  readonly fallback: string | null;
  readonly help: string;
  readonly isFlag: boolean;
  /** @returns null when the text is not one */
  readonly read: (text: string) => T | null;
  /** What it takes, for a sentence. */
  readonly takes: string;
}

/** What the command prints instead of running; `isHelp` when that was asked for. */
export class Usage extends Error {
  readonly isHelp: boolean;

  constructor(message: string, isHelp: boolean) {
    super(message);
    this.isHelp = isHelp;
  }
}

const numberIn = (text: string, least: number): number | null => {
  const value = /^\d+(?:\.\d+)?$/u.test(text) ? Number(text) : Number.NaN;
  return value >= least ? value : null;
};

/** A number of at least `least`. */
export function number(fallback: number, help: string, least = 0): Option<number> {
  const takes = `a number of at least ${least}`;
  return { fallback: String(fallback), help, isFlag: false, takes, read: (text) => numberIn(text, least) };
}

/** A whole number above 0. */
export function count(fallback: number, help: string): Option<number> {
  const read = (text: string): number | null => (/^[1-9]\d{0,11}$/u.test(text) ? Number(text) : null);
  return { fallback: String(fallback), help, isFlag: false, takes: "a whole number above 0", read };
}

/** Whole numbers above 0 with commas between them. */
export function counts(fallback: string, help: string): Option<readonly number[]> {
  const read = (text: string): readonly number[] | null =>
    /^[1-9]\d{0,11}(?:,[1-9]\d{0,11})*$/u.test(text) ? text.split(",").map(Number) : null;
  const takes = "whole numbers above 0 with commas between them";
  return { fallback, help, isFlag: false, takes, read };
}

/** Some of these words, with commas between them. */
export function words<T extends string>(of: readonly T[], fallback: string, help: string): Option<readonly T[]> {
  const isWord = (text: string): text is T => (of as readonly string[]).includes(text);
  const read = (text: string): readonly T[] | null => {
    const parts = text.split(",").filter(isWord);
    return parts.length === text.split(",").length ? parts : null;
  };
  return { fallback, help, isFlag: false, takes: `some of ${of.join(", ")}, with commas between them`, read };
}

/** One of these words. */
export function word<T extends string>(of: readonly T[], fallback: T, help: string): Option<T> {
  const read = (text: string): T | null => of.find((one) => one === text) ?? null;
  return { fallback, help, isFlag: false, takes: of.join(" or "), read };
}

/** Any text; undefined when it is not given and has no fallback. */
export function text(fallback: string, help: string): Option<string>;
export function text(fallback: null, help: string): Option<string | undefined>;
export function text(fallback: string | null, help: string): Option<string | undefined> {
  return { fallback, help, isFlag: false, takes: "a text", read: (given) => given };
}

/** Given or not. */
export function flag(help: string): Option<boolean> {
  return { fallback: "no", help, isFlag: true, takes: "nothing", read: (given) => given === "yes" };
}

type Values<O> = { readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never };

/** Reads the options of `pnpm bench NAME`, as {@link readCommandOptions} does. */
export function readOptions<O extends Readonly<Record<string, Option<unknown>>>>(
  name: string,
  about: string,
  options: O,
  argv: readonly string[],
): Values<O> {
  return readCommandOptions(`pnpm bench ${name}`, about, options, argv);
}

/**
 * Reads the options of a command.
 * @throws {Usage} a sentence about the first that is wrong, or all of them for `--help`
 */
export function readCommandOptions<O extends Readonly<Record<string, Option<unknown>>>>(
  command: string,
  about: string,
  options: O,
  argv: readonly string[],
): Values<O> {
  const spec = Object.fromEntries(
    Object.entries(options).map(([key, { isFlag }]) => [key, { type: isFlag ? "boolean" : "string" } as const]),
  );
  let given: Readonly<Record<string, string | boolean | undefined>>;
  try {
    const help = { help: { type: "boolean", short: "h" } } as const;
    given = parseArgs({ args: [...argv], options: { ...spec, ...help } }).values;
  } catch (error) {
    const sentence = (error instanceof Error ? error.message : String(error)).split(". ")[0];
    throw new Usage(`${sentence}; \`${command} --help\` lists the options`, false);
  }
  if (given["help"] === true) {
    throw new Usage(usageOf(command, about, options), true);
  }
  const read = Object.entries(options).map(([key, option]) => {
    const raw = given[key];
    if (raw === undefined && option.fallback === null) {
      return [key, undefined];
    }
    const value = option.read(typeof raw === "boolean" ? "yes" : (raw ?? option.fallback ?? ""));
    if (value === null) {
      throw new Usage(`--${key} takes ${option.takes}, not ${JSON.stringify(raw)}`, false);
    }
    return [key, value];
  });
  return Object.fromEntries(read) as Values<O>;
}

function usageOf(command: string, about: string, options: Readonly<Record<string, Option<unknown>>>): string {
  const rows = Object.entries(options).map(([key, { fallback, help, isFlag, takes }]) => {
    const byDefault = isFlag || fallback === null || fallback === "" ? "" : `; default ${fallback}`;
    return [`--${key}`, `${help} (${isFlag ? "takes nothing" : takes}${byDefault})`] as const;
  });
  const width = Math.max(...rows.map(([left]) => left.length));
  return [`${command}: ${about}`, ...rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)].join("\n");
}
