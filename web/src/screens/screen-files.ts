/** Screens as files, between the browser and the person. */
import { readScreens, type ScreenFile, writeScreens } from "telemetry-service-client/shared/screen-files";

import { wordsOf } from "../api/error.js";
import { saveFile } from "../ui/controls/copy-and-save.js";
import { checkVariables, parseScreen, ScreenError } from "./screen-model.js";

/** Hands screens to the browser as a download. */
export function downloadScreens(file: string, screens: readonly ScreenFile[]): void {
  saveFile(`${file}.json`, new Blob([writeScreens(screens)], { type: "application/json" }));
}

/** The one screen of a file. @throws ScreenError for another file, and for a screen that its page would not save */
export function readOnlyScreen(text: string, file: string): ScreenFile {
  const [screen, ...others] = screensOf(text, file);
  if (screen === undefined || others.length > 0) {
    const held = screen === undefined ? "no screen" : `${others.length + 1} screens`;
    throw new ScreenError(`${file} holds ${held}. An administrator can take several at once, by Import screens.`);
  }
  checkVariables(parseScreen(screen.config));
  return screen;
}

function screensOf(text: string, file: string): readonly ScreenFile[] {
  try {
    return readScreens(text, file);
  } catch (error) {
    throw new ScreenError(`${wordsOf(error)}.`, { cause: error });
  }
}
