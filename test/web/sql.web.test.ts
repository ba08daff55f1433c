/** The SQL page. */
import { expect, it } from "vitest";

import { expectAccessible, screenshot, useApp } from "../helpers/web/app.js";

const app = useApp({ traces: 200 });

const address = (sql: string): string => `/sql?${new URLSearchParams({ sql }).toString()}`;

it.each(["light", "dark"] as const)("runs a query and shows its rows (%s)", async (theme) => {
  const sql = "SELECT time, service_name, level_name, msg, properties FROM log_entries ORDER BY time DESC";
  const page = await app.open(address(sql), { theme });
  await page.getByRole("button", { name: "Run" }).click();
  const grid = page.getByRole("grid", { name: "Result" });
  await grid.getByText("listener lost").waitFor();
  await page.getByText(/rows, .* in/).waitFor();
  // Markup in telemetry is text.
  expect(await page.title()).toBe("SQL · Telemetry");
  await grid.press("j");
  await grid.press("Enter");
  await page.getByRole("complementary", { name: "Row 2" }).waitFor();
  await expectAccessible(page);
  await screenshot(page, `sql-${theme}`);
});

it("never runs what only an address says", async () => {
  const page = await app.open(address("SELECT 1"));
  expect(await page.getByText("Nothing has run yet").textContent()).not.toBe("");
});

it("says what is wrong with a query in the server's words, with the request id", async () => {
  const page = await app.open(address("SELECT nonsense FROM log_entries"));
  await page.getByRole("button", { name: "Run" }).click();
  await page
    .getByRole("alert")
    .getByText(/nonsense/)
    .waitFor();
  expect(await page.getByRole("alert").textContent()).toMatch(/Request id [0-9a-f-]{36}/);
  await screenshot(page, "sql-error");
});

it("cancels a query that takes long", async () => {
  const page = await app.open(address("SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b"));
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("Running").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled").waitFor();
  expect(await page.getByRole("button", { name: "Run" }).isVisible()).toBe(true);
});
