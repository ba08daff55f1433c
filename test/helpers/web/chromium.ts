/** A real browser, which comes with npm packages alone. */
import sparticuz from "@sparticuz/chromium";
import { type Browser, chromium } from "playwright-core";

/**
 * What the package passes for machines of another kind, and is in the way here: one process for everything ends with the
 * first context that is closed, and a browser has to keep the rules of its web.
 */
const unwanted = new Set([
  "--single-process",
  "--no-zygote",
  "--disable-web-security",
  "--allow-running-insecure-content",
]);

/** Starts it; close it. */
export async function startChromium(more: readonly string[] = []): Promise<Browser> {
  const executablePath = await sparticuz.executablePath();
  const args = [...sparticuz.args.filter((arg) => !unwanted.has(arg)), ...more];
  return chromium.launch({ executablePath, args, headless: true });
}
