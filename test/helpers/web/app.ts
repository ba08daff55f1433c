/**
 * What the tests of the web application share: a monolith in development mode with the telemetry of a shop, a real
 * browser, people who have logged in. A page that breaks its content security policy, asks another host, or writes an
 * error to the console fails the test that opened it.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";

import { recordMinted } from "../cleartext/cleartext-tap.js";
import { type App, type RunningApp, startApp } from "./app-browser.js";

export { screenshot } from "./app-browser.js";

let shared: App | null = null;

/** What the running test file has by {@link useApp}, for the modules whose tests it joins. */
export function sharedApp(): App {
  if (shared === null) {
    throw new Error("the test file that imports this begins with useApp()");
  }
  return shared;
}

/**
 * Registers the hooks of the calling test file, once.
 * @param o.traces of the shop; 0: nothing has been received, but what the service says of itself.
 */
export function useApp(o: { readonly traces?: number; readonly args?: readonly string[] } = {}): App {
  let app: RunningApp | null = null;
  beforeAll(async () => {
    app = await startApp(o);
    recordMinted(...Object.values(app.variables).flatMap((value) => /svk_\w+/.exec(value) ?? []));
  });
  afterEach(() => app?.endTest());
  afterAll(() => app?.stop());
  const running = (): RunningApp => {
    if (app === null) {
      throw new Error("the application runs during tests only");
    }
    return app;
  };
  shared = {
    get url() {
      return running().url;
    },
    get browser() {
      return running().browser;
    },
    get variables() {
      return running().variables;
    },
    get ingestionUrl() {
      return running().ingestionUrl;
    },
    get dataDirectory() {
      return running().dataDirectory;
    },
    get shop() {
      return running().shop;
    },
    open: (where, options) => running().open(where, options),
    openLoggedOut: (where, options) => running().openLoggedOut(where, options),
    send: (where, body) => running().send(where, body),
  };
  return shared;
}

const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
let axeSource: string | null = null;

interface AxeViolation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** What is faded until a newer answer comes; skeletons and placeholders are not. */
const faded = "[aria-busy='true']:not(:empty, :has(> [role='status']))";

/** Fails with what axe-core finds wrong with the page once nothing in it is faded. */
export async function expectAccessible(page: Page): Promise<void> {
  axeSource ??= await readFile(axePath, "utf8");
  await page.evaluate(axeSource);
  await page.locator(faded).first().waitFor({ state: "detached" });
  const violations: readonly AxeViolation[] = await page.evaluate(
    "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations)",
  );
  const words = violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}\n${html}\n${failureSummary ?? ""}`),
  );
  expect(words).toEqual([]);
}
