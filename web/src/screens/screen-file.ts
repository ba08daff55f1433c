/** Screens as files: the ones that `telemetry screens pull` writes and `push` reads. */
import type { Screen } from "../api/wire.js";
import { checkVariables, isRecord, parseScreen, ScreenError } from "./screen-model.js";

/** Version of the files that this release writes; it reads no newer one. */
const fileFormat = 1;

export interface ScreenFile {
  readonly name: string;
  readonly folder: string | null;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Hands a screen to the browser as a download. */
export function downloadScreen({ name, folder, version, config }: Screen): void {
  const text = `${JSON.stringify({ format: fileFormat, name, folder, version, config }, null, 2)}\n`;
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @throws ScreenError for a text that is no file of a screen, or one of a newer release */
export function readScreenFile(text: string): ScreenFile {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ScreenError("This file is no JSON.");
  }
  if (!isRecord(value) || typeof value["format"] !== "number") {
    throw new ScreenError("This is no file of a screen: it has no format.");
  }
  if (value["format"] !== fileFormat) {
    throw new ScreenError(
      `This file has format ${value["format"]}, and this release reads ${fileFormat}: upgrade the service.`,
    );
  }
  const { name, folder = null, config } = value;
  if (typeof name !== "string" || !(folder === null || typeof folder === "string") || !isRecord(config)) {
    throw new ScreenError("This is no file of a screen: it needs name, folder and config.");
  }
  checkVariables(parseScreen(config));
  return { name, folder, config };
}
