/** The Logs page. */
import type { Page } from "playwright-core";
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { pinch, rangeMs } from "../../helpers/web/touch.js";

const app = sharedApp();

const list = (page: Page): ReturnType<Page["getByRole"]> => page.getByRole("grid", { name: "Log records" });

it.each([
  ["light", 1280],
  ["dark", 360],
] as const)("shows volume, facets and records in the %s theme at %i pixels", async (theme, width) => {
  const page = await app.open("/logs?filter=service_name!%3Dtelemetry-monolith", {
    theme,
    width,
    as: theme === "light" ? "admin" : "guest",
  });
  await list(page).getByText("listener lost").waitFor();
  await page
    .getByRole("status")
    .getByText(/\d+ records/)
    .waitFor();
  if (width === 360) {
    await page.getByRole("button", { name: "Facets" }).click();
  }
  await page
    .getByRole("region", { name: "service_name" })
    .getByRole("button", { name: /^checkout/ })
    .waitFor();
  await expectAccessible(page);
  await screenshot(page, `logs-${theme}-${width}`);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
});

it("shows a record in full, with markup as text, and filters by what is in it", async () => {
  const page = await app.open("/logs?q=listener", { theme: "dark" });
  await list(page).getByText("listener lost").click();
  const panel = page.getByRole("complementary", { name: "Log record" });
  await panel.getByText("onerror").first().waitFor();
  await panel.getByText("net.host.port").waitFor();
  await panel.getByRole("region", { name: "Process" }).getByText("deployment.environment.name").waitFor();
  expect(await page.title()).toBe("Logs · Telemetry");
  await expectAccessible(page);
  await screenshot(page, "logs-record");
  await panel.getByText("net.host.port").hover();
  await panel.getByRole("button", { name: "net.host.port as a column" }).click();
  await page.getByRole("columnheader", { name: "net.host.port" }).waitFor();
  await panel.getByRole("button", { name: "Only this net.host.port" }).click();
  await page.waitForURL(/filter=net.host.port%3D8443/);
  // What the address says is what a colleague sees.
  await page.reload();
  await panel.getByText("net.host.port").waitFor();
  await list(page).getByRole("gridcell", { name: "8443" }).waitFor();
});

it.each([1280, 400])("keeps a long name of a service within the panel of a record (%i px wide)", async (width) => {
  const service = `${"a".repeat(200)}-service`;
  await sayOf(service)(`said at ${width} pixels`, 1, 0);
  const page = await app.open(`/logs?q=said+at+${width}`, { width });
  await list(page).getByText(`said at ${width} pixels`).click();
  const panel = page.getByRole("complementary", { name: "Log record" });
  const name = panel.getByText(service).first();
  await name.waitFor();
  const [inner, outer] = [await name.boundingBox(), await panel.boundingBox()];
  expect((inner?.x ?? 0) + (inner?.width ?? 1e6)).toBeLessThanOrEqual((outer?.x ?? 0) + (outer?.width ?? 0));
});

it("tells an attribute from a column that is called the same", async () => {
  const attributes = Object.entries({ level: "high", msg: "of its own", time: "noon" }).map(([key, stringValue]) => ({
    key,
    value: { stringValue },
  }));
  const logRecord = { timeUnixNano: `${Date.now()}000000`, body: { stringValue: "called as columns" }, attributes };
  await app.send("/v1/logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [logRecord] }] }] });
  const page = await app.open("/logs?q=called+as+columns");
  await list(page).getByText("called as columns").click();
  const panel = page.getByRole("region", { name: "Attributes" });
  for (const [name, value] of [
    ["level", "high"],
    ["msg", "of its own"],
    ["time", "noon"],
  ] as const) {
    await panel.getByText(name, { exact: true }).hover();
    await panel.getByRole("button", { name: `${name} as a column` }).click();
    await list(page).getByRole("gridcell", { name: value, exact: true }).waitFor();
    await panel.getByRole("button", { name: `Only this ${name}` }).click();
    await page.getByRole("button", { name: `Remove the filter properties.${name}=${value}` }).waitFor();
    await list(page).getByText("called as columns").waitFor();
  }
  await page.getByRole("status").getByText("1 record").waitFor();
  expect(await page.getByText("No log record matches").count()).toBe(0);
});

it("filters by values that SQL writes in another way than JSON, or cannot write", async () => {
  const values = {
    huge: { arrayValue: { values: [{ doubleValue: 1e21 }] } },
    nul: { stringValue: "a\0b" },
    "k\0": { stringValue: "c" },
  };
  const attributes = Object.entries(values).map(([key, value]) => ({ key, value }));
  const logRecord = { timeUnixNano: `${Date.now()}000000`, body: { stringValue: "odd\0values" }, attributes };
  const other = { ...logRecord, attributes: attributes.map((each) => ({ ...each, value: { stringValue: "ab" } })) };
  await app.send("/v1/logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [logRecord, other] }] }] });
  const page = await app.open(`/logs?filter=${encodeURIComponent(String.raw`"k\u0000"=c`)}`);
  await list(page).getByText("odd").click();
  await list(page).press("f");
  const panel = page.getByRole("region", { name: "Attributes" });
  for (const name of ["huge", "nul"]) {
    await panel.getByRole("button", { name: `Only this ${name}` }).click();
  }
  await page.reload();
  await list(page).getByText("odd").waitFor();
  await page.getByRole("status").getByText("1 record").waitFor();
  expect(new URL(page.url()).searchParams.getAll("filter")).toEqual([
    String.raw`"k\u0000"=c`,
    String.raw`msg="odd\u0000values"`,
    "huge=[1e21]",
    String.raw`nul="a\u0000b"`,
  ]);
});

it("shows the first of very many attributes, and all when asked", async () => {
  const attributes = Array.from({ length: 1234 }, (_, at) => ({ key: `key.${at}`, value: { stringValue: "v" } }));
  const logRecord = { timeUnixNano: `${Date.now()}000000`, body: { stringValue: "very many attributes" }, attributes };
  await app.send("/v1/logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [logRecord] }] }] });
  const page = await app.open("/logs?q=very+many+attributes");
  await page.getByRole("grid", { name: "Log records" }).getByText("very many attributes").click();
  const list = page.getByRole("region", { name: "Attributes" });
  await list.getByRole("button", { name: "Show all 1,234" }).waitFor();
  expect(await list.getByRole("term").count()).toBe(200);
  await list.getByRole("button", { name: "Show all 1,234" }).click();
  await expect.poll(() => list.getByRole("term").count()).toBe(1234);
});

it.each([-7_200_000, 7_200_000])(
  "shows the last minutes when the clock of the browser is off by %i ms",
  async (off) => {
    // The page knows the server's clock but for a few seconds.
    const logRecord = {
      timeUnixNano: `${Date.now() - 60_000}000000`,
      body: { stringValue: `a minute old, clock off by ${off}` },
    };
    await app.send("/v1/logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [logRecord] }] }] });
    const page = await app.open("/processes");
    await page.addInitScript(`const now = Date.now; Date.now = () => now() + ${off};`);
    await page.goto(new URL("logs?from=now-15m&to=now", page.url()).href);
    await list(page).getByText(`a minute old, clock off by ${off}`).waitFor();
    expect(await page.evaluate("Date.now()")).not.toBeCloseTo(Date.now(), -6);
  },
);

it("includes and excludes by facets, searches, and offers a way back when nothing is left", async () => {
  const page = await app.open("/logs");
  const levels = page.getByRole("region", { name: "level_name" });
  await levels.getByRole("button", { name: /^error/ }).click();
  await list(page)
    .getByText(/failed: card declined/)
    .first()
    .waitFor();
  await levels.getByRole("button", { name: /^fatal/ }).click();
  await list(page).getByText("listener lost").waitFor(); // one or the other
  await levels.getByRole("button", { name: "Exclude error" }).click(); // it no longer includes it
  await page.getByRole("status").getByText("1 record").waitFor();
  await page.getByRole("searchbox", { name: "Search in messages" }).fill("no such words");
  await page.getByRole("searchbox", { name: "Search in messages" }).press("Enter");
  await page.getByText("No log record matches").waitFor();
  await expectAccessible(page);
  await screenshot(page, "logs-empty");
  await page.getByRole("button", { name: "Take all filters away" }).click();
  await list(page).getByRole("row").nth(1).waitFor();
  expect(new URL(page.url()).search).toBe("");
});

it("shows no value below another key, also when the values cannot be counted", async () => {
  const page = await app.open("/logs", { allow: /503/ });
  const facet = (name: string) => page.getByRole("region", { name, exact: true }).getByRole("button");
  await facet("level_name").filter({ hasText: "info" }).waitFor();
  await page.route("**/api/query", (route) =>
    route.request().postData()?.includes("AS facet") === true
      ? route.fulfill({ status: 503, json: { code: "UNAVAILABLE", message: "Not now." } })
      : route.continue(),
  );
  await page.getByRole("button", { name: "Remove the facet level_name" }).click();
  await page.getByText("The values could not be counted").waitFor();
  expect(await facet("service_name").filter({ hasText: "info" }).count()).toBe(0);
  expect(await facet("service_name").filter({ hasText: "checkout" }).count()).toBe(1);
});

it("goes on at the facets when one is removed by keyboard", async () => {
  const page = await app.open("/logs");
  const remove = page.getByRole("button", { name: "Remove the facet service_name" });
  await remove.press("Enter");
  await remove.waitFor({ state: "detached" });
  await expect.poll(() => page.locator(":focus").getAttribute("aria-label")).toBe("Facets");
});

it("goes on in the field when a filter is changed or removed by keyboard", async () => {
  const page = await app.open("/logs?filter=service_name%3Dcheckout&filter=level_name%3Dinfo");
  const field = page.getByLabel("Add a filter");
  const hasFocus = (): Promise<boolean> => field.evaluate((input) => input.matches(":focus"));
  await page.getByRole("button", { name: "service_name=checkout", exact: true }).click();
  await page.getByRole("button", { name: "Remove the filter service_name=checkout" }).waitFor({ state: "detached" });
  expect(await hasFocus()).toBe(true);
  expect(await field.inputValue()).toBe("service_name=checkout");
  const remove = page.getByRole("button", { name: "Remove the filter level_name=info" });
  await remove.press("Enter");
  await remove.waitFor({ state: "detached" });
  expect(await hasFocus()).toBe(true);
});

it("completes filters from the data", async () => {
  const page = await app.open("/logs");
  const field = page.getByRole("combobox", { name: "Add a filter" });
  await page.getByRole("region", { name: "level_name" }).waitFor();
  await field.fill("http.ro");
  await page.getByRole("option", { name: "http.route" }).click();
  await field.pressSequentially("cart");
  await page.getByRole("option", { name: "http.route=/cart" }).click();
  await page.waitForURL(/filter=http.route%3D\/cart/);
  await expect.poll(() => page.getByRole("search").getByText("http.route=/cart").isVisible()).toBe(true);
});

it("takes no half of a word that an input method composes for a filter", async () => {
  const page = await app.open("/logs");
  const field = page.getByLabel("Add a filter");
  await field.fill("service_name=");
  const devTools = await page.context().newCDPSession(page);
  await devTools.send("Input.imeSetComposition", { text: "けっさい", selectionStart: 4, selectionEnd: 4 });
  const enter = { key: "Enter", keyCode: 229, isComposing: true, bubbles: true, cancelable: true };
  await page.evaluate(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", ${JSON.stringify(enter)}))`);
  await devTools.send("Input.insertText", { text: "決済" });
  expect(await field.inputValue()).toBe("service_name=決済");
  expect(page.url()).not.toContain("filter=");
  await field.press("Enter");
  await page.getByRole("button", { name: "Remove the filter service_name=決済" }).waitFor();
});

it("shows what was logged before and after, patterns, and the trace of a record", async () => {
  const page = await app.open("/logs?filter=service_name=payment&filter=level_name=error&panel=around");
  await list(page).getByRole("row").nth(1).waitFor();
  await list(page).press("Enter");
  const panel = page.getByRole("complementary", { name: "Log record" });
  await panel
    .getByText(/answered 200/)
    .first()
    .waitFor();
  expect(await panel.getByRole("link", { name: "Open the trace" }).getAttribute("href")).toMatch(
    /\/traces\/[0-9a-f]{32}\?.*span=[0-9a-f]{16}/,
  );
  await expectAccessible(page);
  await screenshot(page, "logs-around");
  expect(await page.evaluate("document.scrollingElement.scrollHeight")).toBe(800); // the panel scrolls, not the page
  await page.getByRole("button", { name: "Patterns" }).click();
  const patterns = page.getByRole("grid", { name: /patterns/ });
  await patterns.getByText("payment failed: card declined for order <num>").waitFor();
  await expectAccessible(page);
  await screenshot(page, "logs-patterns");
  await patterns.getByText("payment failed: card declined for order <num>").click();
  await list(page)
    .getByText(/payment failed: card declined for order \d+/)
    .first()
    .waitFor();
});

it("shows new records as they come in, and waits while somebody looks further down", async () => {
  const page = await app.open("/logs?live=1");
  await list(page).getByRole("row").nth(1).waitFor();
  const say = (text: string): Promise<void> =>
    app.send("/v1/logs", {
      resourceLogs: [
        {
          resource: { attributes: [{ key: "service.name", value: { stringValue: "gateway" } }] },
          scopeLogs: [
            { logRecords: [{ timeUnixNano: `${Date.now()}000000`, severityNumber: 9, body: { stringValue: text } }] },
          ],
        },
      ],
    });
  await say("came in live");
  await list(page).getByText("came in live").waitFor();
  await list(page).evaluate((grid: { scrollTop: number }) => {
    grid.scrollTop = 400;
  });
  await page.getByText("Paused while you look further down").waitFor();
  await say("came in later");
  await page.getByText(/[1-9]\d* new; scroll to the top/).waitFor();
  await screenshot(page, "logs-live");
  await list(page).evaluate((grid: { scrollTop: number }) => {
    grid.scrollTop = 0;
  });
  await list(page).getByText("came in later").waitFor();
  expect(await list(page).getByText("came in live").count()).toBe(1);
});

/** Sends records of a service in one request, which were made `ago` ms before. */
function sayOf(service: string): (text: string, count: number, ago: number) => Promise<void> {
  return (text, count, ago) => {
    const body = { stringValue: text };
    const logRecord = { timeUnixNano: `${Date.now() - ago}000000`, severityNumber: 9, body };
    const resource = { attributes: [{ key: "service.name", value: { stringValue: service } }] };
    const logRecords = Array.from({ length: count }, () => logRecord);
    return app.send("/v1/logs", { resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] });
  };
}

it("shows a record that came late among many that were shown", async () => {
  const page = await app.open("/logs?live=1&filter=service_name=busy");
  const say = sayOf("busy");
  await page.getByText(/^0 records/).waitFor();
  await say("one of many", 1000, 0);
  await list(page).getByText("one of many").first().waitFor();
  await say("came late", 1, 60_000);
  // Before the first ones are older than the 30 seconds that the tail asks for.
  await expect.poll(() => list(page).getAttribute("aria-rowcount"), { timeout: 20_000 }).toBe("1002");
  expect(await page.getByText(/More came than it shows/).count()).toBe(0);
});

it("goes on live when a search leaves nothing to scroll", async () => {
  const page = await app.open("/logs?live=1");
  await list(page).getByRole("row").nth(1).waitFor();
  await list(page).evaluate((grid: { scrollTop: number }) => {
    grid.scrollTop = 400;
  });
  await page.getByText("Paused while you look further down").waitFor();
  const field = page.getByRole("searchbox", { name: "Search in messages" });
  await field.fill("not said yet");
  await field.press("Enter");
  await page.getByText("Waiting for the first record").waitFor();
  await sayOf("gateway")("not said yet", 1, 0);
  await list(page).getByText("not said yet").waitFor();
  expect(await page.getByText("Paused while you look further down").count()).toBe(0);
});

it("says that a tail has a gap after the page was out of sight", async () => {
  const page = await app.open("/processes");
  await page.clock.install();
  await page.goto(`${app.url}/logs?live=1&filter=service_name=unseen`);
  await page.getByText(/^Live\./).waitFor();
  const hide = (hidden: boolean): Promise<void> =>
    page.evaluate(`Object.defineProperty(document, "hidden", { value: ${hidden}, configurable: true }), undefined`);
  await hide(true);
  await page.clock.fastForward("20:00");
  await hide(false);
  await page.clock.runFor(5000);
  const partial = page.getByText(/More came than it shows/);
  await expect.poll(() => partial.count(), { timeout: 15_000 }).toBe(1);
});

it("says that more came than the tail shows", async () => {
  const page = await app.open("/logs?live=1&filter=service_name=flood");
  await page.getByText(/^0 records/).waitFor();
  await sayOf("flood")("one of too many", 1200, 0);
  await page.getByText(/^Live\. 1,001 new records since it began\. More came than it shows/).waitFor();
  // The chart goes on with it.
  await page
    .getByRole("status")
    .getByText(/^1,200 records/)
    .waitFor();
  await screenshot(page, "logs-live-partial");
  // The list that is asked for anew has what came in.
  await page.getByRole("button", { name: "Refresh", exact: true }).click();
  await expect.poll(() => list(page).getAttribute("aria-rowcount")).toBe("1001");
});

it("zooms the chart with the keyboard and with two fingers, which changes the time range", async () => {
  const [from, to] = ["2026-01-01T00:00:00.000Z", "2026-01-01T01:00:00.000Z"];
  const page = await app.open(`/logs?from=${from}&to=${to}`);
  const chart = page.getByRole("group", { name: "Log records over time, by level: + and - zoom, arrows move" });
  await chart.focus();
  await page.keyboard.press("+");
  await page.waitForURL(/from=2026-01-01T00:15:00.000Z&to=2026-01-01T00:45:00.000Z/);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.waitForURL(/from=2026-01-01T00:30:00.000Z&to=2026-01-01T01:00:00.000Z/);
  await page.keyboard.press("-");
  await page.waitForURL(/from=2026-01-01T00:15:00.000Z&to=2026-01-01T01:15:00.000Z/);
  await expectAccessible(page);
  await screenshot(page, "logs-zoom-focus");
  await pinch(page, chart, [0.4, 0.6], [0.2, 0.8]); // three times as near
  await expect.poll(() => rangeMs(page)).toBeLessThan(21 * 60_000);
  expect(rangeMs(page)).toBeGreaterThan(19 * 60_000);
  await pinch(page, chart, [0.2, 0.8], [0.35, 0.65]); // and half of that away again
  await expect.poll(() => rangeMs(page)).toBeGreaterThan(39 * 60_000);
  expect(rangeMs(page)).toBeLessThan(41 * 60_000);
});

it("takes an address with nonsense in it", async () => {
  const page = await app.open(
    "/logs?filter=%00&filter==&filter=level%3Ex&limit=-1&view=x&entry=9-&column=&facet=%27;--&q=%25",
  );
  await page.getByText("No log record matches").waitFor();
  await expect.poll(() => page.getByRole("search").getByText("level>x").isVisible()).toBe(true);
});
