/** The overview: what the service knows at a glance. */
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { services } from "../../helpers/web/shop-telemetry.js";

const app = sharedApp();

it.each([
  ["light", 1280],
  ["dark", 1280],
  ["light", 360],
] as const)("shows every service and what failed (%s, %i pixels)", async (theme, width) => {
  const page = await app.open("/", { theme, width });
  const table = page.getByRole("grid", { name: "Services" });
  for (const service of services) {
    await table.getByText(service, { exact: true }).waitFor();
  }
  await page.getByRole("grid", { name: "Latest errors" }).getByText("listener lost").waitFor();
  await expect.poll(() => page.locator("[aria-busy=true]").count()).toBe(0);
  expect(await page.title()).toBe("Overview · Telemetry");
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await expectAccessible(page);
  await screenshot(page, `overview-${theme}-${width}`);
});

it("has its charts in a browser whose language is no language tag", async () => {
  const page = await app.open("/", { locale: "en-US@posix" });
  expect(await page.evaluate("navigator.languages")).toEqual(["en-US@posix"]);
  await page.locator("canvas").first().waitFor();
});

it("shows somebody else what they may read, and says what to do where there is nothing", async () => {
  const page = await app.open("/?from=2020-01-01&to=2020-01-02", { as: "guest" });
  await page.getByRole("link", { name: "Send your first data" }).click();
  await page.getByRole("heading", { name: "See it arrive" }).waitFor();
  expect(new URL(page.url()).searchParams.get("from")).toBe("2020-01-01");
});
