/** Opens a page in the person's browser. */
import { spawn } from "node:child_process";

/**
 * Asks the system, or the program that `BROWSER` names, to show an address. It does not wait for it, and nothing
 * happens where there is no browser: the address is printed as well.
 */
export function openBrowser(url: string, env: Readonly<Record<string, string | undefined>>): void {
  const [program, ...args] = commandFor(url, env);
  const child = spawn(program, args, { stdio: "ignore", detached: true });
  // Without this a program that is missing would end the process.
  child.once("error", () => undefined);
  child.unref();
}

function commandFor(url: string, env: Readonly<Record<string, string | undefined>>): [string, ...string[]] {
  const named = env["BROWSER"];
  if (named !== undefined && named !== "") {
    return [named, url];
  }
  if (process.platform === "win32") {
    // Not by the shell, to which the & of an address would mean something.
    return ["rundll32", "url.dll,FileProtocolHandler", url];
  }
  return [process.platform === "darwin" ? "open" : "xdg-open", url];
}
