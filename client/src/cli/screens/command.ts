/** `telemetry screens`: screens of the web application as files, to be kept beside code. */
import { rm } from "node:fs/promises";
import path from "node:path";

import { escapeControls } from "../../shared/escape-controls.js";
import { isObject } from "../../shared/is-object.js";
import type { ScreenFile } from "../../shared/screen-files.js";
import { variableProblem } from "../../shared/screen-variables.js";
import { WebError } from "../../web/web-client.js";
import { requestOf } from "../admin/action.js";
import { type AskWeb, openWeb } from "../admin/ask-web.js";
import { commonFlags } from "../admin/flags.js";
import { readPages } from "../admin/pages.js";
import { routes } from "../admin/routes.js";
import { type CommandContext, type Define, exitCodes } from "../context.js";
import { showJson } from "../formats/show.js";
import { addSettings, flag, readSettings, text } from "../settings.js";
import { createOutput } from "../terminal.js";
import { differences } from "./differences.js";
import { type FoundFile, pathOf, readScreenFiles, variableNames, writeScreenFile } from "./screen-file.js";

const settings = {
  folder: text("folder", { placeholder: "name", fallback: null, help: "screens of this folder only" }),
  force: flag("force", "pull: overwrites files that were changed; push: overwrites what others have saved since"),
  ...commonFlags,
} as const;

/** What became of a screen, or would. */
interface Outcome {
  readonly path: string;
  readonly state: "new" | "changed" | "unchanged" | "behind" | "missing" | "written" | "kept" | "saved" | "refused";
  /** A sentence, or the places that differ. */
  readonly details: string;
}

/** Runs over all screens and says what became of each. */
type Work = (call: ScreensCall) => Promise<readonly Outcome[]>;

interface ScreensCall {
  readonly ask: AskWeb;
  readonly directory: string;
  readonly folder: string | null;
  readonly force: boolean;
}

/** `telemetry screens`. */
export const defineScreens: Define = (parent, runs, context) => {
  const define = (name: string, help: string, work: Work): void => {
    const command = parent.command(name).description(help).argument("[directory]", "directory of the files", "screens");
    addSettings(command, settings);
    runs(command, async ([directory = "screens"]) => {
      const values = readSettings(command, context.env, settings);
      const outcomes = await work({
        ask: await openWeb(values, context),
        directory: path.resolve(context.workingDirectory, directory),
        folder: values.folder,
        force: values.force,
      });
      await (values.json ? showJson(outcomes, context.terminal) : show(outcomes, context));
      return outcomes.some(({ state }) => state === "refused" || state === "kept") ? exitCodes.failed : exitCodes.ok;
    });
  };
  define("pull", "writes the screens of the server to files", pull);
  define("push", "saves the screens of files on the server", push);
  define("diff", "says which screens differ between files and server, and where", diff);
};

const pull: Work = async ({ ask, directory, folder, force }) => {
  const files = byName((await localScreens(directory, null)) ?? []);
  const outcomes: Outcome[] = [];
  for (const screen of await remoteScreens(ask, folder)) {
    const file = files.get(screen.name);
    const at = placeOf(screen, file);
    if (file?.path === at && isSame(file, screen) && file.version === screen.version) {
      outcomes.push({ path: at, state: "unchanged", details: "" });
    } else if (file !== undefined && !force && (await isChanged(ask, file, screen))) {
      const since = file.version === screen.version ? "" : `, and the server has version ${screen.version}`;
      outcomes.push({
        path: file.path,
        state: "kept",
        details: `it was changed here since version ${file.version}${since}; push it, or pull with --force`,
      });
    } else {
      await writeScreenFile(directory, at, screen);
      if (file !== undefined && file.path !== at) {
        await rm(path.join(directory, file.path));
      }
      outcomes.push({ path: at, state: "written", details: `version ${screen.version}` });
    }
  }
  return outcomes;
};

/** Where a screen is written: where it is already, but that a file which lies by its folder goes to the new one. */
function placeOf(screen: ScreenFile, file: FoundFile | undefined): string {
  return file === undefined || file.path === pathOf(file) ? pathOf(screen) : file.path;
}

/** Whether a file holds what the server never had; also when the server does not know its version any more. */
async function isChanged(ask: AskWeb, file: FoundFile, screen: ScreenFile): Promise<boolean> {
  if (isSame(file, screen)) {
    return false;
  }
  if (file.version === screen.version || file.version === 0) {
    return true;
  }
  const { name, version } = file;
  try {
    const parts = { name, version: String(version) };
    const before = await ask(requestOf(routes.getScreenVersion, { path: parts }));
    return !isSame(file, screenOf({ ...(isObject(before) ? before : {}), name }));
  } catch (error) {
    if (error instanceof WebError && error.status === 404) {
      return true;
    }
    throw error;
  }
}

const push: Work = async ({ ask, directory, folder, force }) => {
  const outcomes: Outcome[] = [];
  const files = await presentScreens(directory, folder);
  const remote = byName(await remoteScreens(ask, null));
  for (const file of files) {
    const screen = remote.get(file.name);
    if (screen !== undefined && isSame(file, screen)) {
      outcomes.push({ path: file.path, state: "unchanged", details: "" });
      continue;
    }
    const problem = variableProblem(variableNames(file.config));
    if (problem !== null) {
      outcomes.push({ path: file.path, state: "refused", details: problem });
      continue;
    }
    try {
      const version = force || screen === undefined ? (screen?.version ?? 0) : file.version;
      const body = { folder: file.folder, config: file.config, version };
      const saved = screenOf(await ask(requestOf(routes.putScreen, { path: { name: file.name }, body })));
      await writeScreenFile(directory, file.path, saved);
      outcomes.push({ path: file.path, state: "saved", details: `version ${saved.version}` });
    } catch (error) {
      // Others may still be saved; what is wrong with all of them is not.
      if (!(error instanceof WebError) || ![400, 403, 404, 409].includes(error.status ?? 0)) {
        throw error;
      }
      outcomes.push({ path: file.path, state: "refused", details: error.message });
    }
  }
  return outcomes;
};

const diff: Work = async ({ ask, directory, folder }) => {
  const local = await presentScreens(directory, folder);
  const remote = byName(await remoteScreens(ask, null));
  const names = new Set(local.map(({ name }) => name));
  const missing = [...remote.values()].filter(
    (screen) => !names.has(screen.name) && (folder === null || screen.folder === folder),
  );
  return [
    ...local.map((file) => compared(file, remote.get(file.name))),
    ...missing.map((screen): Outcome => ({ path: pathOf(screen), state: "missing", details: "on the server only" })),
  ];
};

function compared(file: FoundFile, screen: ScreenFile | undefined): Outcome {
  if (screen === undefined) {
    return { path: file.path, state: "new", details: "here only" };
  }
  if (isSame(file, screen)) {
    return { path: file.path, state: "unchanged", details: "" };
  }
  const places = [
    ...(file.folder === screen.folder ? [] : ["folder"]),
    ...differences(screen.config, file.config),
  ].join(", ");
  return file.version === screen.version
    ? { path: file.path, state: "changed", details: places }
    : {
        path: file.path,
        state: "behind",
        details: `version ${file.version}, the server has ${screen.version}: ${places}`,
      };
}

/** Files of a folder, or all; null where the directory is missing. @throws Error for two files of one screen */
async function localScreens(directory: string, folder: string | null): Promise<FoundFile[] | null> {
  const files = await readScreenFiles(directory);
  if (files === null) {
    return null;
  }
  const seen = new Map<string, string>();
  for (const { name, path: at } of files) {
    const other = seen.get(name);
    if (other !== undefined) {
      throw new Error(`${other} and ${at} both hold the screen ${escapeControls(name)}; remove one`);
    }
    seen.set(name, at);
  }
  return files.filter((file) => folder === null || file.folder === folder);
}

/** As {@link localScreens}. @throws Error where the directory is missing: a name that was mistyped holds nothing to do */
async function presentScreens(directory: string, folder: string | null): Promise<FoundFile[]> {
  const files = await localScreens(directory, folder);
  if (files === null) {
    throw new Error(`there is no directory ${directory}`);
  }
  return files;
}

async function remoteScreens(ask: AskWeb, folder: string | null): Promise<ScreenFile[]> {
  const all = { limit: Number.POSITIVE_INFINITY, offset: 0, identity: ["name"] };
  const rows = await readPages(all, requestOf(routes.listScreens, { query: { folder } }), ask);
  const screens: ScreenFile[] = [];
  for (const row of Array.isArray(rows) ? rows : []) {
    const name = isObject(row) && typeof row["name"] === "string" ? row["name"] : "";
    screens.push(screenOf(await ask(requestOf(routes.getScreen, { path: { name } }))));
  }
  return screens;
}

/** @throws Error for what is no answer of this service */
function screenOf(answer: unknown): ScreenFile {
  const { name, folder = null, version, config } = isObject(answer) ? answer : {};
  if (typeof name !== "string" || typeof version !== "number" || !isObject(config)) {
    throw new Error("the server answered without a screen; check the address");
  }
  return { name, folder: typeof folder === "string" ? folder : null, version, config };
}

function byName<S extends ScreenFile>(screens: readonly S[]): Map<string, S> {
  return new Map(screens.map((screen) => [screen.name, screen]));
}

function isSame(left: ScreenFile, right: ScreenFile): boolean {
  return left.folder === right.folder && differences(left.config, right.config).length === 0;
}

async function show(outcomes: readonly Outcome[], { terminal }: CommandContext): Promise<void> {
  const output = createOutput(terminal);
  const width = Math.max(0, ...outcomes.map(({ state }) => state.length));
  for (const { path: at, state, details } of outcomes) {
    const line = `${state.padEnd(width)}  ${at}${details === "" ? "" : `  ${details}`}`;
    await output.write(`${escapeControls(line)}\n`);
  }
  await output.flush();
}
