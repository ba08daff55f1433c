/** Where the ingestion server is that a command speaks of. */
import { underSignals } from "../shared/abort.js";
import { isObject } from "../shared/is-object.js";
import { address } from "./settings.js";

const usual = "http://localhost:9000";

/** `--telemetry-url`; null: ask {@link ingestionAddress}. */
export const telemetryUrl = address("telemetry-url", ["http", "https"], {
  variable: "SVC_TELEMETRY_URL",
  fallback: null,
  help: `ingestion server; unset: the one that the web server names, else ${usual}`,
});

/** The address that was given, or that of the web server's configuration, which needs no login. */
export async function ingestionAddress(
  values: { readonly telemetryUrl: string | null; readonly webUrl: string },
  interrupted: AbortSignal,
): Promise<string> {
  return values.telemetryUrl ?? (await namedBy(values.webUrl, interrupted)) ?? usual;
}

async function namedBy(webUrl: string, interrupted: AbortSignal): Promise<string | null> {
  try {
    const config: unknown = await underSignals([interrupted, AbortSignal.timeout(5000)], async (signal) =>
      (await fetch(`${webUrl.replace(/\/+$/u, "")}/api/config`, { redirect: "manual", signal })).json(),
    );
    const named = isObject(config) ? config["ingestion_url"] : null;
    return typeof named === "string" ? (telemetryUrl.parse(named) ?? null) : null;
  } catch {
    // What is wrong with the web server is said by what asks it for more.
    return null;
  }
}
