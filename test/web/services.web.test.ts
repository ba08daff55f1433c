/** Services: the list, who calls whom, and the page of one. */
import { expect, it } from "vitest";

import { expectAccessible, screenshot, useApp } from "../helpers/web/app.js";
import { services } from "../helpers/web/shop-telemetry.js";

const app = useApp({ traces: 200 });

it.each([
  ["light", 1280],
  ["dark", 360],
] as const)("lists every service and leads to its page (%s, %i pixels)", async (theme, width) => {
  const page = await app.open("/services", { theme, width });
  const list = page.getByRole("grid", { name: "Services" });
  for (const service of services) {
    await list.getByText(service, { exact: true }).waitFor();
  }
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await expectAccessible(page);
  await screenshot(page, `services-${theme}-${width}`);
  await list.getByRole("link", { name: "checkout" }).click();
  await page
    .getByRole("grid", { name: "Exceptions" })
    .getByText(/card declined <img src=x/)
    .waitFor();
  await page.getByRole("grid", { name: "Called by" }).getByText("gateway").waitFor();
  await page.getByRole("grid", { name: "Calls", exact: true }).getByText("payment").waitFor();
  // Markup in telemetry is text.
  expect(await page.title()).toBe("Service · Telemetry");
  expect(new URL(page.url()).pathname).toBe("/services/checkout");
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await expectAccessible(page);
  await screenshot(page, `service-${theme}-${width}`);
});

it("shows who calls whom, by keyboard and mouse", async () => {
  const page = await app.open("/services?view=calls&q=pay");
  const calls = page.getByRole("grid", { name: "Calls" });
  await calls.getByText("payment").waitFor();
  expect(await page.getByRole("status").filter({ hasText: "1 pair" }).isVisible()).toBe(true);
  await calls.press("Enter");
  await page.getByRole("heading", { name: "payment" }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/services/payment");
});

it("keeps the operation in the address, and leads to its traces", async () => {
  const page = await app.open("/services/checkout");
  await page.getByRole("grid", { name: "Operations" }).getByText("POST /checkout").click();
  await page.getByRole("button", { name: "Show all operations" }).waitFor();
  expect(new URL(page.url()).searchParams.get("operation")).toBe("POST /checkout");
  const traces = await page.getByRole("link", { name: "Traces" }).last().getAttribute("href");
  expect(new URLSearchParams(traces?.split("?")[1]).getAll("filter")).toEqual([
    "service_name=checkout",
    "name=POST /checkout",
  ]);
});

it("says what to do where there is nothing", async () => {
  const page = await app.open("/services?from=2020-01-01&to=2020-01-02");
  await page.getByText("No service sent anything in this time range").waitFor();
  await page.goto(`${app.url}/services/${encodeURIComponent("<b>none</b>/?")}`);
  await page.getByText("No requests in this time range").waitFor();
  expect(await page.getByRole("heading", { name: "<b>none</b>/?" }).isVisible()).toBe(true);
});
