/** Loaded before a server that is profiled: its engines are started by the script that has them write profiles, too. */
import path from "node:path";
import { isMainThread } from "node:worker_threads";

import { placesIn } from "./attach.js";

const option = "--cpu-prof-dir=";
const directory = process.execArgv.find((argument) => argument.startsWith(option))?.slice(option.length);
if (isMainThread && directory !== undefined) {
  process.execPath = placesIn(path.dirname(directory)).engineNode;
}
