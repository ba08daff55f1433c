/**
 * Preloaded into a program (`NODE_OPTIONS=--import=…`), it writes the URL of each module that the main thread loads to
 * the file that `LOADED_FILES` names; of CommonJS packages only what modules import.
 */
import { appendFileSync } from "node:fs";
import { type LoadHook, register } from "node:module";
import { isMainThread } from "node:worker_threads";

export const load: LoadHook = (url, context, next) => {
  appendFileSync(process.env["LOADED_FILES"] ?? "", `${url}\n`);
  return next(url, context);
};

// The hook itself runs in a thread of Node.js's.
if (isMainThread) {
  register(import.meta.url);
}
