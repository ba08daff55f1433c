/** The search for traces, and a trace. */
import type { Page } from "playwright-core";
import { expect, it } from "vitest";

import { expectAccessible, screenshot, useApp } from "../helpers/web/app.js";

const app = useApp({ traces: 120 });

const list = (page: Page): ReturnType<Page["getByRole"]> => page.getByRole("grid", { name: "Traces" });
const spans = (page: Page): ReturnType<Page["getByRole"]> => page.getByRole("treegrid", { name: "Spans" });

it.each([
  ["light", 1280],
  ["dark", 360],
] as const)("finds traces and opens one in the %s theme at %i pixels", async (theme, width) => {
  const page = await app.open("/traces?filter=service_name=payment&error=1&order=slowest", {
    theme,
    width,
    as: theme === "light" ? "guest" : "admin",
  });
  await list(page).getByRole("row").nth(1).waitFor();
  await page
    .getByRole("status")
    .getByText(/\d+ traces?/)
    .waitFor();
  await expectAccessible(page);
  await screenshot(page, `traces-${theme}-${width}`);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await list(page).press("Enter");
  await spans(page).getByRole("row").first().waitFor();
  await spans(page).getByLabel("failed").first().waitFor();
  await expectAccessible(page);
  await screenshot(page, `trace-${theme}-${width}`);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
});

it("shows a failed span in full, with markup as text, and what was logged in it", async () => {
  const page = await app.open("/traces?error=1", { theme: "dark" });
  await list(page).getByRole("row").nth(1).waitFor();
  await list(page).press("Enter");
  await spans(page)
    .getByRole("row")
    .filter({ has: page.getByLabel("failed") })
    .last()
    .click();
  const panel = page.getByRole("complementary");
  await panel.getByRole("region", { name: "Exception" }).getByText("<script>").waitFor();
  await panel.getByText("at charge (payment.js:42:7)").waitFor();
  await panel.getByRole("region", { name: "Logs" }).getByText("card declined").waitFor();
  await panel.getByRole("region", { name: "Process" }).getByText("deployment.environment.name").waitFor();
  expect(await page.title()).toBe("Trace · Telemetry");
  await expectAccessible(page);
  await screenshot(page, "trace-span");
  await page.reload(); // the span is in the address
  await panel.getByText("at charge (payment.js:42:7)").waitFor();
  await page.getByRole("button", { name: "Flame graph" }).click();
  await page
    .getByRole("group", { name: "Flame graph" })
    .getByRole("button", { name: /^gateway/ })
    .waitFor();
  await expectAccessible(page);
  await screenshot(page, "trace-flame");
  await page.getByRole("button", { name: /^Logs/ }).click();
  await page.getByRole("grid", { name: "Log records" }).getByText("card declined").first().waitFor();
  await expectAccessible(page);
});

it("moves, zooms, closes and searches with the keyboard in a trace of 20,000 spans", async () => {
  const traceId = "c".repeat(32);
  await sendLargeTrace(traceId, 20_000);
  const page = await app.open(`/traces/${traceId.toUpperCase()}`);
  await page.getByText("20,000").waitFor();
  const tree = spans(page);
  await tree.press("w");
  await page.waitForURL(/zoom=/);
  await tree.press("0");
  await page.waitForURL((url) => !url.search.includes("zoom"));
  await tree.press("ArrowLeft"); // closes the root
  await tree.getByRole("row").nth(1).waitFor({ state: "detached" });
  await tree.press("/");
  await page.keyboard.type("needle");
  await page.getByText("1 found").waitFor();
  await page.keyboard.press("Enter"); // opens what is above the find
  await tree.getByText("needle").waitFor();
  await tree.press("Enter");
  await page.getByRole("complementary", { name: "needle" }).waitFor();
  await screenshot(page, "trace-large");
  expect(await tree.getByRole("row").count()).toBeLessThan(100);
});

it("narrows by duration, and says what to do when nothing is left", async () => {
  const page = await app.open("/traces");
  await list(page).getByRole("row").nth(1).waitFor();
  await page.getByRole("textbox", { name: "Least duration" }).fill("6h");
  await page.getByRole("textbox", { name: "Least duration" }).press("Enter");
  await page.getByText("No trace matches").waitFor();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Take all filters away" }).click();
  await list(page).getByRole("row").nth(1).waitFor();
  expect(new URL(page.url()).search).toBe("");
});

it.each(["/traces/nonsense?at=%00&span=%27&zoom=9-1", `/traces/${"0".repeat(32)}?at=2026-01-01T00:00:00Z&tab=x`])(
  "says that there is no trace at %s",
  async (where) => {
    const page = await app.open(where);
    expect(await page.getByText("There is no such trace").textContent()).not.toBe("");
    await expectAccessible(page);
  },
);

/** Spans of seven children each. */
async function sendLargeTrace(traceId: string, count: number): Promise<void> {
  const beginMs = Date.now() - 60_000;
  const nano = (ms: number): string => `${Math.round((beginMs + ms) * 1000)}000`;
  const spanId = (at: number): string => (at + 1).toString(16).padStart(16, "0");
  const all = Array.from({ length: count }, (_, at) => ({
    traceId,
    spanId: spanId(at),
    ...(at === 0 ? {} : { parentSpanId: spanId(Math.floor((at - 1) / 7)) }),
    name: at === count - 1 ? "needle" : `step ${at % 13}`,
    kind: 1,
    startTimeUnixNano: nano(at === 0 ? 0 : (at / count) * 900),
    endTimeUnixNano: nano(at === 0 ? 1000 : (at / count) * 900 + 50),
  }));
  for (let at = 0; at < count; at += 5000) {
    await app.send("/v1/traces", {
      resourceSpans: [
        {
          resource: { attributes: [{ key: "service.name", value: { stringValue: `batch-${at / 5000}` } }] },
          scopeSpans: [{ spans: all.slice(at, at + 5000) }],
        },
      ],
    });
  }
}
