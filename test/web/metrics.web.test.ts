/** Metrics: the catalogue, charts of each kind, and the way from a large value to its trace. */
import { expect, it } from "vitest";

import { expectAccessible, screenshot, useApp } from "../helpers/web/app.js";

const app = useApp({ traces: 40 });

it.each([
  ["light", 1280],
  ["dark", 360],
] as const)("lists metrics and draws those that are chosen (%s, %i pixels)", async (theme, width) => {
  const page = await app.open("/metrics?q=http.server", { theme, width });
  const grid = page.getByRole("grid", { name: "Metrics" });
  const requests = page.getByRole("region", { name: "http.server.requests" });
  const duration = page.getByRole("region", { name: "http.server.request.duration" });
  await grid.getByText("http.server.requests").click();
  await requests.getByRole("img").first().waitFor();
  await grid.getByText("http.server.request.duration").click();
  await duration.getByRole("img").first().waitFor();
  await requests.getByRole("combobox", { name: /^Series of/ }).click();
  await page.getByRole("option", { name: "by service" }).click();
  await requests.getByText("checkout").waitFor();
  await duration.getByRole("combobox", { name: /^Series of/ }).click();
  await page.getByRole("option", { name: "by http.route" }).click();
  await duration.getByText("/checkout").waitFor();
  expect(new URL(page.url()).searchParams.getAll("chart")).toHaveLength(2);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await expectAccessible(page);
  await screenshot(page, `metrics-${theme}-${width}`);
});

it("draws what an address says, and nothing for nonsense in it", async () => {
  const charts = [
    ["gauge", "max", "service_name", "process.memory.usage"],
    ["counter", "increase", "", "http.server.requests"],
    ["gauge", "avg", "", "<b>none</b>"],
  ];
  const query = new URLSearchParams({ chart: "[1,2]" });
  for (const chart of charts) {
    query.append("chart", JSON.stringify(chart));
  }
  const page = await app.open(`/metrics?${query.toString()}`);
  await page.getByRole("region", { name: "process.memory.usage" }).getByText("payment").waitFor();
  await page.getByRole("region", { name: "<b>none</b>" }).getByText("No points in this time range").waitFor();
  await page.getByRole("button", { name: "Remove <b>none</b>" }).click();
  await page.getByRole("region", { name: "<b>none</b>" }).waitFor({ state: "detached" });
  expect(new URL(page.url()).searchParams.getAll("chart")).toHaveLength(2);
});

it("leads from a large value to its trace", async () => {
  const chart = JSON.stringify(["histogram", "p99", "", "http.server.request.duration"]);
  const page = await app.open(`/metrics?${new URLSearchParams({ chart }).toString()}`);
  await page.getByText("Traces of large values").getByRole("link").first().click();
  await page.getByRole("treegrid", { name: "Spans" }).getByRole("row").first().waitFor();
  expect(app.shop.traceIds).toContain(new URL(page.url()).pathname.slice("/traces/".length));
});

it("says what to do where there are none", async () => {
  const page = await app.open("/metrics?from=2020-01-01&to=2020-01-02");
  await page.getByText("No metrics in this time range").waitFor();
  await expectAccessible(page);
  expect(await page.getByRole("grid").count()).toBe(0);
});
