/** The administrative commands: read the command line, ask the web server, show its answer. */
import { type CommandContext, type Define, exitCodes } from "../context.js";
import { showFields, showJson, showRows } from "../formats/show.js";
import { addSettings, readSettings } from "../settings.js";
import { createOutput } from "../terminal.js";
import type { AdminAction, Shown } from "./action.js";
import { openWeb } from "./ask-web.js";
import { auditActions } from "./audit.js";
import { denialActions } from "./denials.js";
import { eraseActions } from "./erase.js";
import { actionFlags, commonFlags } from "./flags.js";
import { followTask } from "./follow.js";
import { grantActions } from "./grants.js";
import { groupActions } from "./groups.js";
import { keyActions } from "./keys.js";
import { lakeActions } from "./lake.js";
import { readPages } from "./pages.js";
import { usageActions } from "./usage.js";
import { retentionActions } from "./retention.js";

/** `telemetry keys`. */
export const defineKeys: Define = admin(keyActions);
/** `telemetry grants`. */
export const defineGrants: Define = admin(grantActions);
/** `telemetry groups`. */
export const defineGroups: Define = admin(groupActions);
/** `telemetry audit`. */
export const defineAudit: Define = admin(auditActions);
/** `telemetry usage`. */
export const defineUsage: Define = admin(usageActions);
/** `telemetry denials`. */
export const defineDenials: Define = admin(denialActions);
/** `telemetry retention`. */
export const defineRetention: Define = admin(retentionActions);
/** `telemetry erase`. */
export const defineErase: Define = admin(eraseActions);
/** `telemetry lake`. */
export const defineLake: Define = admin(lakeActions);

function admin(actions: readonly AdminAction[]): Define {
  return (parent, runs, context) => {
    for (const action of actions) {
      const command = parent
        .command(action.name, { isDefault: actions.length === 1 || action.isDefault === true })
        .description(action.help);
      for (const parameter of action.parameters) {
        command.argument(parameter.startsWith("[") ? parameter : `<${parameter}>`);
      }
      const own = Object.fromEntries(action.flags.map((name) => [name, actionFlags[name]]));
      addSettings(command, { ...own, ...commonFlags });
      runs(command, async (args) => {
        const values = readSettings(command, context.env, { ...actionFlags, ...commonFlags });
        const { request, shown, pages, follow } = action.call(args, values);
        const ask = await openWeb(values, context);
        let answer: unknown;
        try {
          answer = pages === undefined ? await ask(request) : await readPages(pages, request, ask);
          if (follow !== undefined) {
            answer = await followTask(answer, follow, ask, context.terminal);
          }
        } catch (error) {
          if (context.terminal.interrupted.aborted) {
            return exitCodes.interrupted;
          }
          throw error;
        }
        await (values.json ? showJson(answer, context.terminal) : show(answer, shown, context));
        return exitCodes.ok;
      });
    }
  };
}

async function show(answer: unknown, shown: Shown, { terminal }: CommandContext): Promise<void> {
  if (shown.kind === "line") {
    const output = createOutput(terminal);
    await output.write(`${shown.line}\n`);
    await output.flush();
  } else if (shown.kind === "rows" && Array.isArray(answer)) {
    await showRows(shown.columns, answer, terminal);
  } else {
    await showFields(answer, terminal, shown.kind === "fields" ? shown.rewritten : undefined);
  }
  if (shown.kind === "fields-and-note") {
    terminal.stderr.write(`telemetry: ${shown.note}\n`);
  }
}
