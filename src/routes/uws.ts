/** Loads uWebSockets.js, a native addon that not every platform has a binary for. */

import type * as uws from "uWebSockets.js";

import { processEnvironment } from "../runtime/config/environment.js";
import { ServiceError } from "../runtime/errors.js";

/** The module of uWebSockets.js. */
export type Uws = typeof uws;

/**
 * Room for the header section of one request in bytes, 1 MiB and something for the other fields, as in
 * Go's server: a credential that is far too long gets its 401 rather than a 431 from below us (src/auth looks
 * at 16 KiB of it). The addon gathers an incomplete head in memory of its own and closes the connection
 * after 10 seconds in which less than 16 KB/s came. An operator who wants less sets the variable.
 */
const maxHeaderBytes = String((1 << 20) + (64 << 10));

/**
 * Loads the addon. It reads its one setting from the environment of the process while it loads, so the
 * main thread has to load it first: the environment of a worker thread is a copy that C++ does not see.
 * @throws ServiceError NOT_CONFIGURED, in one sentence, where no binary fits the platform.
 */
export async function loadUws(): Promise<Uws> {
  setAddonOption("UWS_HTTP_MAX_HEADERS_SIZE", maxHeaderBytes);
  try {
    const { default: module } = (await import("uWebSockets.js")) as unknown as { default: Uws };
    // No "uWebSockets" header in responses; undocumented, ignored by versions that do not know it.
    (module as unknown as { _cfg?: (key: string) => void })._cfg?.("silent");
    return module;
  } catch (cause) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `uWebSockets.js has no binary for Node.js ${process.versions.node} on ${process.platform} ${process.arch} with this C library; use Node.js 20 on Linux with glibc 2.27 or newer, or Node.js 22 or 24 with glibc 2.38 or newer`,
      { cause },
    );
  }
}

/** Not a setting of this service: the only way to hand the addon an option. */
function setAddonOption(name: string, value: string): void {
  const environment = processEnvironment() as Record<string, string | undefined>;
  environment[name] ??= value;
}
