/**
 * Screens as files, of the command line and of the web application: one screen, or several in one file. A file that a
 * newer release wrote is refused rather than half understood.
 */
import { isObject } from "./is-object.js";

/** Version of both kinds of files; nothing newer is read. */
const format = 1;

/** A screen as a file holds it. */
export interface ScreenFile {
  readonly name: string;
  readonly folder: string | null;
  /** That of the server that it was written from; 0 for a screen that is new. */
  readonly version: number;
  readonly config: Readonly<Record<string, unknown>>;
}

/** The text of a file. */
export function writeScreens(screens: readonly ScreenFile[]): string {
  const plain = screens.map(({ name, folder, version, config }) => ({ name, folder, version, config }));
  const [only] = plain;
  const value = plain.length === 1 && only !== undefined ? { format, ...only } : { format, screens: plain };
  return `${JSON.stringify(value, null, 2)}\n`;
}

/**
 * The screens of a file.
 * @param file what errors call it
 * @throws Error in one sentence for a text that is none, or of a newer release
 */
export function readScreens(text: string, file: string): readonly ScreenFile[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Error(`${file} is no JSON`, { cause });
  }
  if (!isObject(value) || typeof value["format"] !== "number") {
    throw new Error(`${file} is no file of screens: it has no format`);
  }
  if (value["format"] !== format) {
    throw new Error(`${file} has format ${value["format"]}, and this release reads ${format}: upgrade first`);
  }
  const { screens } = value;
  if (screens === undefined) {
    return [readScreen(value, file)];
  }
  if (!Array.isArray(screens)) {
    throw new Error(`${file} is no file of screens: its screens are no list`);
  }
  return screens.map((screen: unknown) => readScreen(screen, file));
}

function readScreen(value: unknown, file: string): ScreenFile {
  const { name, folder = null, version = 0, config } = isObject(value) ? value : {};
  if (
    typeof name !== "string" ||
    !(folder === null || typeof folder === "string") ||
    !(typeof version === "number" && Number.isSafeInteger(version) && version >= 0) ||
    !isObject(config)
  ) {
    throw new Error(`${file} is no file of screens: each has name, folder, version and config`);
  }
  return { name, folder, version, config };
}
