import { readFileSync } from "node:fs";

/** The version in package.json, for `--version`, the log and the telemetry of the service itself. */
export function serviceVersion(): string {
  // Compiled, this file is dist/src/runtime/version.js.
  const text = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
  const manifest = JSON.parse(text) as { readonly version: string };
  return manifest.version;
}
