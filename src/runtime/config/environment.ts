/** The only place that reads `process.env`. */

import type { Environment } from "./parse-options.js";

/** The environment of this process. */
export function processEnvironment(): Environment {
  return process.env;
}

/** The `AWS_*` variables, for the object store. */
export function awsEnvironment(): Environment {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => name.startsWith("AWS_")),
  );
}
