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

- A server does not start with a value that it does not take, and says so of all of them. Of a variable that
  looks like an option and is none it warns.
- An empty variable counts as unset, unless its line says what the empty string does; an empty flag is refused.
- Sizes are in bytes, or end in \`KiB\`, \`MiB\` or \`GiB\`. Times are in seconds, with fractions where wanted.
- A switch takes \`true\`, \`on\`, \`yes\`, \`1\`, or \`false\`, \`off\`, \`no\`, \`0\`; its flag alone means \`true\`.
- An address to listen on is \`host:port\`, with IPv6 in brackets (\`[::1]:9000\`); port 0 picks a free one.
`;

/** The document: every option that is an environment variable, in the order of the option table. */
export function optionsText(): string {
  const rows = Object.entries<OptionRow>(options)
    .filter(([name]) => isVariable(name))
    .map(([name, option]) => {
      const format = option.kind.format as (value: unknown) => string;
      const value = option.default === null ? "" : `\`${format(option.default)}\``;
      const prefixed = roleForm(name, option, "ingestion") === null ? "" : " ¹";
      return `| \`${name}\`${prefixed} | ${value} | ${takesText(option)} | ${option.roles.join(", ")} | ${option.help} |`;
    });
  const head = ["| Variable | Default | Takes | Read by | |", "| --- | --- | --- | --- | --- |"];
  return `${introduction}\n${[...head, ...rows].join("\n")}\n`;
}

/** What an option takes, without what the introduction says of all such options. */
function takesText({ kind }: OptionRow): string {
  switch (kind.placeholder) {
    case "number":
    case "bytes":
    case "seconds":
      return kind.takes.replace(/^.* from (.*?)(?:, .*)?$/u, "$1");
    case "host:port":
      return kind.placeholder;
    default:
      // Markdown takes <name> for HTML.
      return kind.takes.replaceAll(/\S*<\S+>/gu, "`$&`");
  }
}

if (process.argv[1]?.endsWith("write-options.js") === true) {
  writeFileSync(optionsDocument, optionsText());
}
