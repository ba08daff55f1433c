/** "Send your first data": a key, settings to copy, and the first record. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { recordMinted } from "../../helpers/cleartext/cleartext-tap.js";

/** As somebody does who pastes a command. */
async function runShell(command: string): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn("sh", ["-ec", command], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
  }
  const [code] = (await once(child, "close")) as [number | null];
  return { code, output };
}

const app = sharedApp();

it("mints a key in place, shows it once, and turns green when the first record arrives", async () => {
  const page = await app.open("/start?language=curl");
  await page.getByRole("textbox", { name: "Name of the service" }).fill("it's mine");
  await page.getByRole("button", { name: "Mint a key" }).click();
  const key = (await page.getByRole("status").locator("code").first().textContent()) ?? "";
  recordMinted(key);
  expect(key).toMatch(/^svk_/);
  const command = await page.locator("pre").first().textContent();
  expect(command).toContain(`'Authorization: Bearer ${key}'`);
  await expectAccessible(page);
  await page.getByText("Waiting for the first record").waitFor();

  const { code, output } = await runShell((command ?? "").replace("curl", "curl -sS --fail-with-body"));
  expect([code, output]).toEqual([0, "{}"]);
  await page.getByText("1 record from it's mine").waitFor();
  await expectAccessible(page);
  await screenshot(page, "start-arrived");

  // Nowhere but on the page, and gone with it.
  expect(
    await page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href])"),
  ).not.toContain(key.slice(4));
  await page.reload();
  await page.getByRole("button", { name: "Mint a key" }).waitFor();
  expect(await page.content()).not.toContain(key);
});

it("copies settings for each language, with the address of this service", async () => {
  const page = await app.open("/start");
  await page.getByRole("button", { name: "Mint a key" }).waitFor();
  for (const language of ["Node.js", "Python", "Java", "Go", ".NET", "Ruby", "Collector"]) {
    await page.getByRole("button", { name: language, exact: true }).click();
    const first = page.getByRole("figure").first();
    await first.getByRole("button").click();
    const shown = await first.locator("pre").textContent();
    expect(shown).toContain(`${app.ingestionUrl}/ingestion/otlp`);
    await expect.poll(() => page.evaluate("navigator.clipboard.readText()")).toBe(shown);
  }
});

it.each(["light", "dark"] as const)("tells somebody who may not mint what to do (%s)", async (theme) => {
  const page = await app.open("/start", { as: "guest", theme, width: 360 });
  await page.getByText("You may not mint keys yet.").waitFor();
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(360);
  await expectAccessible(page);
  await screenshot(page, `start-guest-${theme}-360`);
});
