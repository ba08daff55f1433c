/** `telemetry setup`: mints the caller's own ingestion key and prints the variables that an exporter reads. */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { hostname } from "node:os";
import path from "node:path";

import { escapeControls } from "../shared/escape-controls.js";
import { isObject } from "../shared/is-object.js";
import { writePrivateFile } from "../shared/private-file.js";
import { otlpEnvironment, otlpExporterConfig } from "../telemetry/otlp-exporter.js";
import { openWeb } from "./admin/ask-web.js";
import { actionFlags, webSettings } from "./admin/flags.js";
import { routes } from "./admin/routes.js";
import { type Define, UsageError, exitCodes } from "./context.js";
import { showJson } from "./formats/show.js";
import { ingestionAddress, telemetryUrl } from "./ingestion-address.js";
import { addSettings, oneOf, readSettings, shared, text } from "./settings.js";
import { createOutput } from "./terminal.js";

const shells = ["sh", "fish", "powershell", "dotenv"] as const;

/** Whose syntax the variables are printed in. */
export type Shell = (typeof shells)[number];

const settings = {
  audience: { ...actionFlags.audience, help: "write audience of the key; a new one becomes yours" },
  userAudience: { ...actionFlags.userAudience, help: "the same, with the part of your email before the @ in front" },
  name: text("name", {
    placeholder: "name",
    fallback: null,
    help: "what the key is for; unset: the name of this machine",
  }),
  shell: oneOf("shell", shells, { fallback: "sh", help: "whose syntax the variables are printed in" }),
  out: text("out", {
    placeholder: "file",
    fallback: null,
    help: "writes the variables to a file of mode 0600 and prints nothing of the key",
  }),
  telemetryUrl,
  json: shared.json,
  ...webSettings,
} as const;

/** `telemetry setup`. */
export const defineSetup: Define = (command, runs, context) => {
  addSettings(command, settings);
  command.addHelpText("after", '\nIn a shell: eval "$(telemetry setup --user-audience dev)"');
  runs(command, async () => {
    const values = readSettings(command, context.env, settings);
    if (values.audience !== null && values.userAudience !== null) {
      throw new UsageError("give --audience or --user-audience, not both");
    }
    const file = values.out === null ? null : path.resolve(context.workingDirectory, values.out);
    if (file !== null) {
      await tryToWrite(file);
    }
    const ask = await openWeb(values, context);
    const ingestion = await ingestionAddress(values, context.terminal.interrupted);
    const { logsUrl } = otlpExporterConfig({ telemetryUrl: ingestion, apiKey: null });
    const ingestionUrl = logsUrl.slice(0, logsUrl.indexOf("/ingestion/otlp"));
    const minted = await ask({
      ...routes.mintIngestionKey,
      body: {
        name: values.name ?? hostname(),
        ...(values.audience === null ? {} : { audience: values.audience }),
        ...(values.userAudience === null ? {} : { user_audience: values.userAudience }),
      },
    });
    if (!isObject(minted) || typeof minted["key"] !== "string") {
      throw new Error(`${values.webUrl} answered without a key; check the address`);
    }
    const { key, audience, key_id: keyId, claimed } = minted;
    const variables = otlpEnvironment({ ingestionUrl, apiKey: key });
    const { terminal } = context;
    if (file !== null) {
      await writePrivateFile(file, script(variables, values.shell)).catch((error: NodeJS.ErrnoException) => {
        const revoke = `revoke it: telemetry keys revoke ingestion ${String(keyId)}`;
        throw new Error(`a key was minted, but ${unwritable(file, error)}; ${revoke}`, { cause: error });
      });
    }
    if (values.json) {
      const shown = { key_id: keyId, audience, claimed, ...(values.out === null ? Object.fromEntries(variables) : {}) };
      await showJson(shown, terminal);
    } else if (values.out === null) {
      const output = createOutput(terminal);
      await output.write(script(variables, values.shell));
      await output.flush();
    }
    const where = values.out === null ? "it is shown only once" : `it is in ${values.out}`;
    const yours = claimed === true ? ", which is yours from now on" : "";
    terminal.stderr.write(`telemetry: a key for audience ${escapeControls(String(audience))}${yours}; ${where}\n`);
    if (claimed === true) {
      terminal.stderr.write(
        "telemetry: your queries show its records within SVC_AUTH_CACHE_TTL_SECONDS of the servers, a minute by default\n",
      );
    }
    return exitCodes.ok;
  });
};

/** A key is shown only once: most of what keeps it from its file is better known before it is minted. */
async function tryToWrite(file: string): Promise<void> {
  const beside = `${file}.${randomUUID()}`;
  try {
    await writePrivateFile(beside, "");
    await rm(beside);
  } catch (cause) {
    throw new Error(`${unwritable(file, cause as NodeJS.ErrnoException)}; no key was minted`, { cause });
  }
}

function unwritable(file: string, error: NodeJS.ErrnoException): string {
  return `${file} cannot be written: ${error.code ?? error.message}`;
}

type Variables = readonly (readonly [name: string, value: string])[];

/** Lines that set variables. Values hold no line breaks: they are addresses, keys and words. */
export function script(variables: Variables, shell: Shell): string {
  return variables.map(([name, value]) => `${line(name, value, shell)}\n`).join("");
}

function line(name: string, value: string, shell: Shell): string {
  switch (shell) {
    case "sh":
      return `export ${name}='${value.replaceAll("'", String.raw`'\''`)}'`;
    case "fish":
      return `set -gx ${name} '${value.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
    case "powershell":
      return `$env:${name} = '${value.replaceAll("'", "''")}'`;
    case "dotenv":
      return `${name}="${value.replaceAll(/["\\$`]/g, String.raw`\$&`)}"`;
  }
}
