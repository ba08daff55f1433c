/**
 * Screens as files: `<folder>/<name>.json` below a directory, or `<name>.json` for one in no folder. Names come from a
 * server, so what a file system could take for more than a name is percent-encoded.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { isObject } from "../../shared/is-object.js";
import { readScreens, type ScreenFile, writeScreens } from "../../shared/screen-files.js";

/** A file with its path below the directory. */
export interface FoundFile extends ScreenFile {
  readonly path: string;
}

/** Where a screen is written, below the directory. */
export function pathOf({ name, folder }: Pick<ScreenFile, "name" | "folder">): string {
  const file = `${encodeName(name)}.json`;
  return folder === null ? file : path.join(encodeName(folder), file);
}

/** Writes a screen to a path below the directory, and what directories of it are missing. */
export async function writeScreenFile(directory: string, at: string, screen: ScreenFile): Promise<void> {
  const file = path.join(directory, at);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, writeScreens([screen]));
}

/**
 * The screens below a directory, by path; null where it is missing.
 * @throws Error in one sentence for a file that is none, or of a newer release
 */
export async function readScreenFiles(directory: string): Promise<FoundFile[] | null> {
  const paths = await jsonFiles(directory);
  if (paths === null) {
    return null;
  }
  return await Promise.all(
    paths.map(async (relative) => ({
      ...onlyScreen(await readFile(path.join(directory, relative), "utf8"), relative),
      path: relative,
    })),
  );
}

/** Of the variables of a screen, those in groups too. */
export function variableNames({ cells }: ScreenFile["config"]): string[] {
  return (Array.isArray(cells) ? cells : []).filter(isObject).flatMap((cell) => {
    const { kind, name } = cell;
    return kind === "group" ? variableNames(cell) : kind === "variable" ? [typeof name === "string" ? name : ""] : [];
  });
}

async function jsonFiles(directory: string): Promise<string[] | null> {
  try {
    const entries = await readdir(directory, { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile() && entry.name.endsWith(".json"))
      .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
      .toSorted();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") {
      return null;
    }
    throw error;
  }
}

function onlyScreen(text: string, file: string): ScreenFile {
  const [screen, ...others] = readScreens(text, file);
  if (screen === undefined || others.length > 0) {
    throw new Error(
      screen === undefined
        ? `${file} holds no screen; remove it`
        : `${file} holds several screens, and this command reads files of one; bring it in by Import screens in the web application`,
    );
  }
  return screen;
}

/**
 * Letters, digits and what is harmless in between stay as they are. Of what is too long for a file system the beginning
 * stays, and a hash tells it from others.
 */
function encodeName(name: string): string {
  const encoded = name.replaceAll(/[^\p{L}\p{N} ._-]|^[. ]|[. ]$/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(""),
  );
  if (Buffer.byteLength(encoded) <= maxNameBytes) {
    return encoded;
  }
  const hash = createHash("sha256").update(name).digest("hex").slice(0, 16);
  return `${encoded.slice(0, 40).replace(/[ .]$/, "")}~${hash}`;
}

/** File systems take 255; an ending follows. */
const maxNameBytes = 200;
