/** Writes docs/options.md: `node dist/scripts/write-options.js`. A test keeps it true. */
import { writeFileSync } from "node:fs";

import { options } from "../src/runtime/config/options.js";
import { type OptionRow, isVariable, roleForm } from "../src/runtime/config/table.js";

/** Where the document is. */
export const optionsDocument = new URL("../../docs/options.md", import.meta.url);

const introduction = `# Options

Every variable has a flag of the same name (\`SVC_DATA_DIR\` is \`--data-dir\`), and the flag wins.
¹ \`SVC_INGESTION_X\` and \`SVC_ANALYTICS_X\` override \`SVC_X\` for their role, as do their flags: on the monolith,
and each on the server of its role. This page is written by scripts/write-options.ts.
`;

/** The document: every option that is an environment variable, in the order of the option table. */
export function optionsText(): string {
  const rows = Object.entries<OptionRow>(options)
    .filter(([name]) => isVariable(name))
    .map(([name, option]) => {
      const format = option.kind.format as (value: unknown) => string;
      const value = option.default === null ? "" : `\`${format(option.default)}\``;
      const prefixed = roleForm(name, option, "ingestion") === null ? "" : " ¹";
      return `| \`${name}\`${prefixed} | ${value} | ${option.roles.join(", ")} | ${option.help} |`;
    });
  const head = ["| Variable | Default | Read by | |", "| --- | --- | --- | --- |"];
  return `${introduction}\n${[...head, ...rows].join("\n")}\n`;
}

if (process.argv[1]?.endsWith("write-options.js") === true) {
  writeFileSync(optionsDocument, optionsText());
}
