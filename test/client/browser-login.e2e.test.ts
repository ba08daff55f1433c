/** Logging in with a real browser: at the web server, and for the command line. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";

import { freePort } from "../helpers/free-port.js";
import {
  commandLine,
  developmentVariables,
  type MonolithProcess,
  runProgram,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";
import { until } from "../helpers/until.js";
import { startChromium } from "../helpers/web/chromium.js";

let data: Awaited<ReturnType<typeof temporaryDirectory>>;
let monolith: MonolithProcess;
let env: Record<string, string>;
let browser: Browser;

beforeAll(async () => {
  data = await temporaryDirectory();
  monolith = await startMonolithProcess(data.directory);
  // A login, not the key of development mode, says who asks.
  const { SVC_ANALYTICS_API_KEY: _key, ...variables } = await developmentVariables(data.directory);
  env = { ...variables, HOME: data.directory };
  browser = await startChromium();
});

afterAll(async () => {
  await browser.close();
  await monolith.stop();
  await data.remove();
});

/** A browser of its own, without cookies. */
async function open(): Promise<Page> {
  return (await browser.newContext()).newPage();
}

async function chooseAccount(page: Page, email: string): Promise<void> {
  await page.getByRole("button", { name: email }).click();
}

it.each([
  ["dev@localhost", true],
  ["guest@localhost", false],
])("is one click for %s", async (email, isAdmin) => {
  const page = await open();
  await page.goto(`${env["SVC_WEB_URL"]}/auth/login?return_to=/auth/me`);
  await chooseAccount(page, email);
  await page.waitForURL("**/auth/me");
  expect(JSON.parse((await page.textContent("body")) ?? "")).toMatchObject({ email, is_admin: isAdmin });
});

it("lets the command line ask as the person in the browser", async () => {
  const port = await freePort();
  const child = spawn(process.execPath, [commandLine, "login", "--no-browser", `--callback-port=${port}`], {
    env: { ...env, PATH: process.env["PATH"] },
  });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  const ended = once(child, "close");
  await until(() => said.includes("http://"));
  const page = await open();
  await page.goto(/http:\/\/\S+/u.exec(said)?.[0] ?? "");
  await chooseAccount(page, "dev@localhost");
  await page.waitForURL(`http://127.0.0.1:${port}/callback**`);
  expect(await page.textContent("body")).toMatch(/close this (?:page|tab|window)/iu);
  // Its style passes its own Content-Security-Policy.
  expect(await page.evaluate("getComputedStyle(document.querySelector('p')).padding")).toBe("32px");
  expect(await ended).toEqual([0, null]);

  const who = await runProgram(commandLine, ["whoami", "--json"], { env });
  expect({ ...who, stdout: JSON.parse(who.stdout) as unknown }).toMatchObject({
    code: 0,
    stdout: { email: "dev@localhost" },
  });
  const rows = await runProgram(commandLine, ["query", "--format", "json", "SELECT 1 AS one"], { env });
  expect(rows).toEqual({ code: 0, stdout: '{"one":1}\n', stderr: "" });
});
