/** Writes the table of options into README.md: `node dist/scripts/readme-options.js`. A test keeps it true. */
import { readFileSync, writeFileSync } from "node:fs";

import { options } from "../src/runtime/config/options.js";
import { type OptionRow, isVariable, roleForm } from "../src/runtime/config/table.js";

const begin = "<!-- options: written by scripts/readme-options.ts -->";
const end = "<!-- end of options -->";
const readme = new URL("../../README.md", import.meta.url);

/** The Markdown table of every option that is an environment variable, in the order of the option table. */
export function optionsTable(): string {
  const rows = Object.entries<OptionRow>(options)
    .filter(([name]) => isVariable(name))
    .map(([name, option]) => {
      const format = option.kind.format as (value: unknown) => string;
      const value = option.default === null ? "" : `\`${format(option.default)}\``;
      const prefixed = roleForm(name, option, "ingestion") === null ? "" : " ¹";
      return `| \`${name}\`${prefixed} | ${value} | ${option.roles.join(", ")} | ${option.help} |`;
    });
  return ["| Variable | Default | Read by | |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

/** `text` with the table between the two markers replaced. */
export function withOptionsTable(text: string): string {
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from === -1 || to < from) throw new Error("README.md has lost the markers of its options");
  return `${text.slice(0, from + begin.length)}\n\n${optionsTable()}\n\n${text.slice(to)}`;
}

if (process.argv[1]?.endsWith("readme-options.js") === true) {
  writeFileSync(readme, withOptionsTable(readFileSync(readme, "utf8")));
}
