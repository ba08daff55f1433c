/** A real browser, which comes with npm packages alone. */
import sparticuz from "@sparticuz/chromium";
import { type Browser, chromium } from "playwright-core";

/** Starts it; close it. */
export async function startChromium(): Promise<Browser> {
  const executablePath = await sparticuz.executablePath();
  return chromium.launch({ executablePath, args: sparticuz.args, headless: true });
}
