/** A real browser, which comes with npm packages alone. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import path from "node:path";

import sparticuz from "@sparticuz/chromium";
import { type Browser, chromium } from "playwright-core";

import { lastingDirectory } from "../run-directory.js";

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

/** For an emulated graphics card, which WebGL needs. What draws on one waits for a second now and then, with nothing to do. */
const emulation = /^--(?:use-gl|use-angle|in-process-gpu|ignore-gpu-blocklist|enable-unsafe-swiftshader)\b/u;

/**
 * Starts it; close it.
 * @param webGl false: the browser draws everything itself
 */
export async function startChromium(webGl = true): Promise<Browser> {
  const executablePath = await unpacked();
  const wanted = sparticuz.args.filter((arg) => !unwanted.has(arg));
  const args = webGl ? wanted : [...wanted.filter((arg) => !emulation.test(arg)), "--disable-gpu"];
  return chromium.launch({ executablePath, args, headless: true });
}

/** Its program, unpacked once: into a directory that gets its name when it is whole, as others may start one, too. */
async function unpacked(): Promise<string> {
  const installation = createHash("sha256")
    .update(import.meta.resolve("@sparticuz/chromium"))
    .digest("hex");
  const directory = path.join(lastingDirectory(), `telemetry-service-chromium-${installation.slice(0, 12)}`);
  if (!existsSync(directory)) {
    const fresh = await mkdtemp(`${directory}.`);
    try {
      await unpackInto(fresh);
      await rename(fresh, directory);
    } catch (error) {
      await rm(fresh, { recursive: true, force: true });
      if (!existsSync(directory)) {
        throw error;
      }
    }
  }
  return path.join(directory, "chromium");
}

/** The package unpacks to `tmpdir()`, which it asks for before it first waits. */
async function unpackInto(directory: string): Promise<void> {
  const before = process.env["TMPDIR"];
  process.env["TMPDIR"] = directory;
  const unpacking = sparticuz.executablePath();
  if (before === undefined) {
    delete process.env["TMPDIR"];
  } else {
    process.env["TMPDIR"] = before;
  }
  await unpacking;
}
