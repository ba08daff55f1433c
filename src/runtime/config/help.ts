/** The text of `--help`, from the option table. */

import { type OptionRow, type OptionTable, flagOf, isVariable, type PrefixRole, roleForm } from "./table.js";

const lineWidth = 100;
const indent = "      ";

/**
 * One entry per option: flag and placeholder, variable, sentence, default. Secrets show no default.
 * @param formsOf roles whose forms of an option the program reads
 */
export function helpText(
  program: { readonly name: string; readonly summary: string },
  table: OptionTable,
  formsOf: readonly PrefixRole[] = [],
): string {
  const entries = Object.entries(table).map(([name, option]) => entryText(name, option, formsOf));
  return [
    `${program.name}: ${program.summary}`,
    "",
    "Every option is a flag and, where a name in brackets is given, an environment variable; the flag wins.",
    "",
    ...entries,
    "  --help\n      Prints this text.",
    "  --version\n      Prints the version.",
    "",
  ].join("\n");
}

function entryText(name: string, option: OptionRow, formsOf: readonly PrefixRole[]): string {
  const value = option.kind.placeholder === "" ? "" : ` <${option.kind.placeholder}>`;
  const variable = isVariable(name) ? ` [${name}]` : "";
  const overrides = formsOf
    .flatMap((role) => roleForm(name, option, role) ?? [])
    .map((form) => ` ${flagOf(form)} [${form}] overrides it for that role.`)
    .join("");
  const sentence = `${option.help}${defaultText(option)}${overrides}`;
  return `  ${flagOf(name)}${value}${variable}\n${wrap(sentence)}`;
}

function defaultText(option: OptionRow): string {
  if (option.default === null || option.default === false || option.secret === true) {
    return "";
  }
  // A row's default has the type of its kind; the table has forgotten which.
  const format = option.kind.format as (value: unknown) => string;
  return ` Default: ${format(option.default)}.`;
}

function wrap(sentence: string): string {
  const lines: string[] = [];
  let line = indent;
  for (const word of sentence.split(" ")) {
    if (line.length + word.length + 1 > lineWidth && line !== indent) {
      lines.push(line);
      line = indent;
    }
    line += line === indent ? word : ` ${word}`;
  }
  return [...lines, line].join("\n");
}
