/** The only place that reads `process.env`. */

import type { Environment } from "./parse-options.js";

/** The environment of this process. */
export function processEnvironment(): Environment {
  return process.env;
}
