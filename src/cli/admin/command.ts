/** The administrative commands: read the command line, ask the web server, show its answer. */
import path from "node:path";

import { readProfile } from "telemetry-service-client";
import { readIdentityToken, tokenFilePath } from "telemetry-service-client";
import { requestWeb, WebError, type WebRequest } from "telemetry-service-client";
import { helpText } from "../../runtime/config/help.js";
import { ConfigError, parseOptions, readFlags, suggestion } from "../../runtime/config/parse-options.js";
import { flagOf } from "../../runtime/config/table.js";
import { isLoopbackHost } from "telemetry-service-client/shared/loopback";
import { type Command, type CommandContext, exitCodes } from "../command.js";
import { fieldList, rowsTable } from "../formats/rows.js";
import { createOutput, type Terminal } from "../terminal.js";
import type { AdminAction, Shown } from "./action.js";
import { auditActions } from "./audit.js";
import { actionFlags, commonFlags } from "./flags.js";
import { grantActions } from "./grants.js";
import { groupActions } from "./groups.js";
import { keyActions } from "./keys.js";
import { readPages } from "./pages.js";

const flags = { ...actionFlags, ...commonFlags } as const;

/** `telemetry keys`, `grants`, `groups` and `audit`. */
export const adminCommands: readonly Command[] = [
  adminCommand("keys", "mints, lists and revokes API keys", keyActions),
  adminCommand("grants", "grants and revokes reading and minting of audiences", grantActions),
  adminCommand("groups", "manages groups of users, admins among them", groupActions),
  adminCommand("audit", "lists who changed what", auditActions),
];

function adminCommand(name: string, summary: string, actions: readonly AdminAction[]): Command {
  return {
    name,
    summary,
    async run(context) {
      if (context.argv.includes("--help") || context.argv.includes("-h")) {
        context.terminal.stdout.write(helpOf(name, summary, actions));
        return exitCodes.ok;
      }
      const { action, args } = chooseAction(name, actions, context);
      const { values } = parseOptions(flags, context.argv, context.env);
      const { request, shown, pages } = action.call(args, values);
      const directory = path.join(context.homeDirectory, ".telemetry");
      if (values.profile !== null) {
        // Refuses a profile that does not exist, so that a typing error does not make a user act as another.
        await readProfile(path.join(directory, "config.json"), values.profile);
      }
      const tokenFile =
        values.tokenFile === null
          ? tokenFilePath(directory, values.profile)
          : path.resolve(context.workingDirectory, values.tokenFile);
      const idToken = await readIdentityToken(tokenFile);
      warnAboutPlaintext(values.webUrl, context.terminal);
      let answer: unknown;
      try {
        const server = { url: values.webUrl, idToken, signal: context.terminal.interrupted };
        const send = (one: WebRequest): Promise<unknown> => requestWeb(server, one);
        answer = pages === undefined ? await send(request) : await readPages(pages, request, send);
      } catch (error) {
        if (context.terminal.interrupted.aborted) {
          return exitCodes.interrupted;
        }
        throw withHint(error, tokenFile);
      }
      await show(answer, values.json ? null : shown, context.terminal);
      return exitCodes.ok;
    },
  };
}

/** @throws ConfigError for an unknown action, a wrong number of arguments, a flag of another action. */
function chooseAction(
  name: string,
  actions: readonly AdminAction[],
  context: CommandContext,
): { readonly action: AdminAction; readonly args: readonly string[] } {
  const { texts, positionals, problems } = readFlags(flags, context.argv);
  if (problems.length > 0) {
    throw new ConfigError(problems);
  }
  const [first, ...rest] = positionals;
  const only = actions.length === 1 ? actions[0] : undefined;
  const action = actions.find((candidate) => candidate.name === first) ?? only;
  if (action === undefined) {
    const names = actions.map((candidate) => candidate.name);
    throw new ConfigError([
      first === undefined
        ? `telemetry ${name} takes ${names.join(", ")}; see telemetry ${name} --help`
        : `${first} is not an action of telemetry ${name}${suggestion(first, names)}; see telemetry ${name} --help`,
    ]);
  }
  const args = action.name === first ? rest : positionals;
  if (args.length !== action.parameters.length || args.includes("")) {
    throw new ConfigError([`usage: ${usageOf(name, action)}`]);
  }
  const foreign = [...texts.keys()].filter(
    (flag) => !Object.hasOwn(commonFlags, flag) && !action.flags.some((own) => own === flag),
  );
  if (foreign.length > 0) {
    throw new ConfigError(foreign.map((flag) => `${flagOf(flag)} is not for telemetry ${name} ${action.name}`));
  }
  return { action, args };
}

function usageOf(name: string, action: AdminAction): string {
  const words = ["telemetry", name, action.name, ...action.parameters.map((p) => `<${p}>`)];
  const own = action.flags.map((flag) => {
    const { placeholder } = actionFlags[flag].kind;
    return `[${flagOf(flag)}${placeholder === "" ? "" : ` <${placeholder}>`}]`;
  });
  return [...words, ...own].join(" ");
}

function helpOf(name: string, summary: string, actions: readonly AdminAction[]): string {
  const own = new Set(actions.flatMap((action) => action.flags));
  const table = Object.fromEntries(
    Object.entries(flags).filter(([flag]) => Object.hasOwn(commonFlags, flag) || [...own].some((o) => o === flag)),
  );
  const texts = helpText({ name: "", summary: "" }, table).split("\n").slice(2).join("\n");
  const lines = actions.map((action) => `  ${usageOf(name, action)}\n      ${action.help}`);
  return `telemetry ${name}: ${summary}, on the web server.

Usage:
${lines.join("\n")}

Exit code 0: done; 1: refused or failed; 2: wrong usage; 130: interrupted.

${texts}`;
}

/** @param shown null prints the JSON as it is. */
async function show(answer: unknown, shown: Shown | null, terminal: Terminal): Promise<void> {
  const output = createOutput(terminal.stdout);
  if (shown === null) {
    // Nothing to print where the server had nothing to say.
    if (answer !== null) {
      await output.write(`${JSON.stringify(answer, null, 2)}\n`);
    }
  } else if (shown.kind === "line") {
    await output.write(`${shown.line}\n`);
  } else if (shown.kind === "rows" && Array.isArray(answer)) {
    const columns = terminal.stdout.isTTY === true ? (terminal.stdout.columns ?? 80) : null;
    await output.write(rowsTable(shown.columns, answer.filter(isObject), columns));
  } else {
    await output.write(fieldList(isObject(answer) ? answer : { answer }));
  }
  await output.flush();
  if (shown?.kind === "fields-and-note") {
    terminal.stderr.write(`telemetry: ${shown.note}\n`);
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function warnAboutPlaintext(webUrl: string, terminal: Terminal): void {
  const { protocol, hostname } = new URL(webUrl);
  if (protocol === "http:" && !isLoopbackHost(hostname)) {
    terminal.stderr.write(
      "telemetry: your identity token travels unencrypted over http://; use https:// beyond this machine\n",
    );
  }
}

function withHint(error: unknown, tokenFile: string): unknown {
  if (!(error instanceof WebError)) {
    return error;
  }
  const advice =
    error.status === 401
      ? `; the token is from ${tokenFile}`
      : error.status === null
        ? "; --web-url or SVC_WEB_URL says where the web server is"
        : null;
  return advice === null ? error : new WebError(error.status, `${error.message}${advice}`, { cause: error });
}
