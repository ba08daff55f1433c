/**
 * The web application as people have it: a monolith in development mode with the telemetry of a shop, a real browser,
 * people who have logged in. Without vitest, so that what makes screenshots can use it, too.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";

import { developmentVariables, type MonolithProcess, startMonolithProcess } from "../servers/monolith.js";
import { startChromium } from "./chromium.js";
import { type Shop, shopTelemetry } from "./shop-telemetry.js";

/** `dev@localhost` and `guest@localhost`. */
type Role = "admin" | "guest";

interface PageOptions {
  readonly as?: Role;
  readonly theme?: "light" | "dark";
  readonly width?: number;
  readonly height?: number;
  /** Default: that of most people; a machine without a locale has `en-US@posix`. */
  readonly locale?: string;
  /** What the browser says is no error here, for example the line about an answer 403 that the test asks for. */
  readonly allow?: RegExp;
}

export interface App {
  /** `http://host:port`, without a slash at its end. */
  readonly url: string;
  readonly browser: Browser;
  /** What `dev.env` exports. */
  readonly variables: Readonly<Record<string, string>>;
  readonly shop: Shop;
  /** Of the ingestion server, `http://host:port`. */
  readonly ingestionUrl: string;
  /** Where the server keeps everything; the objects are in `objects`. */
  readonly dataDirectory: string;
  /** Opens a path of the application as somebody who has logged in. Everything opened is closed after the test. */
  open(path: string, o?: PageOptions): Promise<Page>;
  /** A browser of its own, where nobody has logged in. */
  openLoggedOut(path: string, o?: PageOptions): Promise<Page>;
  /** Sends OTLP/JSON as a service does. */
  send(path: string, body: object): Promise<void>;
}

/** Asked before anybody has logged in: whether somebody has. */
const sessionCheck = /401 .*\/auth\/(?:me|refresh)$/;

const emails = { admin: "dev@localhost", guest: "guest@localhost" } as const;

/** Of what is waited for in a browser, its first login among it, on a machine that is busy elsewhere. */
const timeoutMs = 90_000;

/** How long the telemetry of the shop goes back. */
const shopSpanMs = 50 * 60_000;

/** An {@link App} to stop. */
export interface RunningApp extends App {
  /** Closes what was opened, and fails if a page did something that it must not. */
  endTest(): Promise<void>;
  stop(): Promise<void>;
}

export async function startApp(o: {
  readonly traces?: number;
  readonly args?: readonly string[];
  /** See {@link startChromium}. */
  readonly webGl?: boolean;
}): Promise<RunningApp> {
  const directory = await mkdtemp(path.join(tmpdir(), "web-app-"));
  let monolith: MonolithProcess | null = null;
  let browser: Browser | null = null;
  const stop = async (): Promise<void> => {
    await browser?.close();
    await monolith?.stop();
    await rm(directory, { recursive: true, force: true, maxRetries: 3 });
  };
  try {
    monolith = await startMonolithProcess(directory, o.args);
    const variables = await developmentVariables(directory);
    const url = variables["SVC_WEB_URL"] ?? "";
    const { ingestionUrl } = monolith;
    const [, authorization = ""] = decodeURIComponent(variables["OTEL_EXPORTER_OTLP_HEADERS"] ?? "").split("=");
    const send = async (where: string, body: object): Promise<void> => {
      const response = await fetch(`${ingestionUrl}/ingestion/otlp${where}`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          authorization,
        },
        body: JSON.stringify(body),
      });
      if (response.status !== 200) {
        throw new Error(`${where} answered ${response.status}: ${await response.text()}`);
      }
    };
    const shop = shopTelemetry({ endMs: Date.now(), spanMs: shopSpanMs, traces: o.traces ?? 300 });
    if (o.traces !== 0) {
      await Promise.all(shop.requests.map((request) => send(request.path, request.body)));
    }
    browser = await startChromium(o.webGl);
    return {
      ...pagesOf(browser, url),
      url,
      browser,
      variables,
      shop,
      ingestionUrl,
      dataDirectory: directory,
      send,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function pagesOf(browser: Browser, url: string): Pick<RunningApp, "open" | "openLoggedOut" | "endTest"> {
  const states = new Map<Role, Awaited<ReturnType<BrowserContext["storageState"]>>>();
  const contexts: BrowserContext[] = [];
  const problems: string[] = [];

  const contextFor = async (role: Role | null, options: PageOptions): Promise<BrowserContext> => {
    const { theme = "light", width = 1280, height = 800, locale = "en-US" } = options;
    const context = await browser.newContext({
      colorScheme: theme,
      locale,
      viewport: { width, height },
      reducedMotion: "reduce",
      permissions: ["clipboard-read", "clipboard-write"],
      ...(role === null ? {} : { storageState: await stateOf(role) }),
    });
    context.setDefaultTimeout(timeoutMs);
    contexts.push(context);
    return context;
  };
  const stateOf = async (role: Role): Promise<Awaited<ReturnType<BrowserContext["storageState"]>>> => {
    let state = states.get(role);
    if (state === undefined) {
      const context = await browser.newContext();
      context.setDefaultTimeout(timeoutMs);
      const page = await context.newPage();
      await page.goto(`${url}/auth/login?return_to=/auth/me`);
      await page.getByRole("button", { name: emails[role] }).click();
      await page.waitForURL("**/auth/me");
      state = await context.storageState();
      await context.close();
      states.set(role, state);
    }
    return state;
  };
  const openIn = async (context: BrowserContext, where: string, options: PageOptions): Promise<Page> => {
    const page = await context.newPage();
    watch(page, url, options.allow, problems);
    await page.goto(`${url}${where}`);
    return page;
  };
  return {
    open: async (where, options = {}) => openIn(await contextFor(options.as ?? "admin", options), where, options),
    openLoggedOut: async (where, options = {}) => openIn(await contextFor(null, options), where, options),
    async endTest() {
      await Promise.all(contexts.splice(0).map((context) => context.close()));
      if (problems.length > 0) {
        throw new Error(problems.splice(0).join("\n"));
      }
    },
  };
}

/** Notes what a page of the application must not do. */
function watch(page: Page, url: string, allow: RegExp | undefined, problems: string[]): void {
  const isApp = (): boolean => page.url().startsWith(url);
  const note = (text: string): void => {
    if (isApp() && allow?.test(text) !== true && !sessionCheck.test(text)) {
      problems.push(`${page.url()}: ${text}`);
    }
  };
  page.on("pageerror", (error) => note(`threw ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") {
      note(`${message.type()}: ${message.text()} ${message.location().url}`);
    }
  });
  page.on("request", (request) => {
    const { origin } = new URL(request.url());
    if (!request.isNavigationRequest() && origin !== new URL(url).origin && origin !== "null") {
      note(`asked ${request.url()}`);
    }
  });
}

/** Where screenshots go that people look at: `SHOTS=directory`; without it none are made. */
const shots = process.env["SHOTS"];

/** A picture of the page, to be looked at. */
export async function screenshot(page: Page, name: string): Promise<void> {
  if (shots !== undefined) {
    await page.screenshot({ path: path.join(shots, `${name}.png`) });
  }
}
