/** Processes: the list and the panel of one. */
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { services } from "../../helpers/web/shop-telemetry.js";

const app = sharedApp();

it.each([
  ["light", 1280],
  ["dark", 360],
] as const)("lists processes and shows one in full (%s, %i pixels)", async (theme, width) => {
  const page = await app.open("/processes", { theme, width });
  const grid = page.getByRole("grid", { name: "Processes" });
  for (const service of services) {
    await grid.getByText(service, { exact: true }).waitFor();
  }
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await screenshot(page, `processes-${theme}-${width}`);
  await grid.getByText("payment", { exact: true }).click();
  const panel = page.getByRole("complementary", { name: "payment" });
  await panel.getByText("deployment.environment.name").waitFor();
  const id = new URL(page.url()).searchParams.get("process");
  const logs = await panel.getByRole("link", { name: "Logs" }).getAttribute("href");
  expect(new URLSearchParams(logs?.split("?")[1]).get("filter")).toBe(`process_id=${id}`);
  await expectAccessible(page);
  await screenshot(page, `process-${theme}-${width}`);
});

it("finds by words, and says what to do where there is nothing", async () => {
  const page = await app.open("/processes?q=node-b");
  await page.getByRole("status").filter({ hasText: "1 process" }).waitFor();
  await page.getByLabel("Find a process").fill("<b>none</b>");
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByRole("grid", { name: "Processes" }).getByText("gateway").waitFor();
  expect(new URL(page.url()).searchParams.has("q")).toBe(false);
  await page.goto(`${app.url}/processes?from=2020-01-01&to=2020-01-02`);
  await page.getByText("No process sent anything in this time range").waitFor();
});
