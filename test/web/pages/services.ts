/** Services: the list, who calls whom, and the page of one. */
import { expect, it } from "vitest";

import { seededRandom } from "../../helpers/seeded-random.js";
import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { services } from "../../helpers/web/shop-telemetry.js";

const app = sharedApp();

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
  const page = await app.open("/services?view=calls&q=cards");
  const calls = page.getByRole("grid", { name: "Calls" });
  await calls.getByText("payment").waitFor();
  await expect.poll(() => page.getByRole("status").filter({ hasText: "1 pair" }).isVisible()).toBe(true);
  await calls.press("Enter");
  await page.getByRole("heading", { name: "payment" }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/services/payment");
});

it.each([
  ["light", 1280, "admin"],
  ["dark", 360, "guest"],
] as const)("draws who calls whom, and leads to services and traces (%s, %i pixels)", async (theme, width, as) => {
  const page = await app.open("/services", { theme, width, as });
  await page.getByRole("button", { name: "Map" }).click();
  const map = page.getByRole("group", { name: "Service map" });
  const call = map.getByRole("link", { name: /^checkout calls payment: .* failed, p95/ });
  await call.waitFor();
  expect(new URL(page.url()).searchParams.get("view")).toBe("map");
  for (const name of [/^gateway: /, /^postgresql \(database\)/, /^inventory calls postgresql: /]) {
    expect(await map.getByRole("link", { name }).count()).toBe(1);
  }
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await expectAccessible(page);
  await screenshot(page, `service-map-${theme}-${width}`);
  await page.getByRole("combobox", { name: "Colour of calls" }).click();
  await page.getByRole("option", { name: "Colour: p95" }).click();
  await page.waitForURL(/colour=p95/);
  await expectAccessible(page);
  await screenshot(page, `service-map-p95-${theme}-${width}`);
  await call.focus();
  await page.keyboard.press("Enter");
  await page.getByText("checkout → payment").waitFor();
  const traces = page.getByRole("grid", { name: "Traces" });
  await traces.getByRole("row").nth(1).waitFor();
  expect(new URL(page.url()).pathname).toBe("/traces");
  await expectAccessible(page);
  await screenshot(page, `traces-of-call-${theme}-${width}`);
  await page.getByRole("button", { name: "Also without this call" }).click();
  await page.waitForURL((url) => !url.search.includes("calle"));
});

it("walks along calls with the keyboard, moves and zooms, and keeps the view in the address", async () => {
  const page = await app.open("/services?view=map");
  const map = page.getByRole("group", { name: "Service map" });
  const focused = (): Promise<unknown> =>
    page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent");
  await map.getByRole("link", { name: /^gateway: / }).focus();
  for (const [key, where] of [
    ["ArrowRight", /^gateway calls (?:checkout|catalogue)/],
    ["ArrowDown", /^gateway calls (?:checkout|catalogue)/],
    ["ArrowRight", /^(?:checkout|catalogue): /],
    ["ArrowLeft", /^gateway calls/],
    ["ArrowLeft", /^gateway: /],
  ] as const) {
    await page.keyboard.press(key);
    expect(await focused()).toMatch(where);
  }
  await page.keyboard.press("+");
  await page.waitForURL(/place=/);
  const zoomed = page.url();
  await page.keyboard.press("Shift+ArrowRight");
  await page.waitForURL((url) => url.href !== zoomed);
  const place = async () => (await map.getByRole("link", { name: /^gateway: / }).boundingBox()) ?? { x: 0, y: 0 };
  const before = await place();
  await page.reload();
  // The map is drawn first, and then put where the address says.
  await expect.poll(async () => Math.abs((await place()).x - before.x)).toBeLessThan(3);
  const after = await place();
  // Drawing the map does not click what is below the hand.
  await page.mouse.move(after.x + 20, after.y + 20);
  await page.mouse.down();
  await page.mouse.move(after.x + 120, after.y + 60, { steps: 4 });
  await page.mouse.up();
  expect(new URL(page.url()).pathname).toBe("/services");
  await map.getByRole("link", { name: /^checkout: / }).click();
  await page.getByRole("heading", { name: "checkout" }).waitFor();
});

it("draws 100 services with 500 calls", async () => {
  const names = await sendManyServices(100, 500);
  const page = await app.open("/services?view=map&q=load-");
  const map = page.getByRole("group", { name: "Service map" });
  await page.getByRole("status").filter({ hasText: "500 pairs" }).waitFor();
  await map.getByRole("link", { name: /^load-0: / }).waitFor();
  expect(await map.getByRole("link", { name: / calls load-/ }).count()).toBe(500);
  expect(await map.locator("[tabindex='0']").count()).toBe(1);
  await screenshot(page, "service-map-many");
  await page.getByRole("button", { name: "Show all" }).click();
  await screenshot(page, "service-map-all");
  await map.getByRole("link", { name: new RegExp(`^${names[1]}: `) }).hover();
  await screenshot(page, "service-map-pointed");
  await page.getByRole("textbox", { name: "Find a service" }).fill("load-7");
  await map.getByRole("link", { name: /^load-0 calls load-1:/ }).waitFor({ state: "detached" });
  await screenshot(page, "service-map-found");
  await expectAccessible(page);
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
  await expect.poll(() => page.getByRole("heading", { name: "<b>none</b>/?" }).isVisible()).toBe(true);
});

/** Services whose calls go mostly to those of a higher number; 1 in 20 goes back. */
async function sendManyServices(count: number, calls: number): Promise<readonly string[]> {
  const random = seededRandom(3);
  const pairs = new Set<string>();
  for (let at = 0; at + 1 < count; at++) {
    pairs.add(`${Math.floor(random() * Math.min(at + 1, 30))} ${at + 1}`);
  }
  while (pairs.size < calls) {
    const from = Math.floor(random() ** 2 * count);
    const to = Math.min(count - 1, from + 1 + Math.floor(random() * 40));
    pairs.add(random() < 0.05 ? `${to} ${from}` : `${from} ${to}`);
    pairs.delete(`${from} ${from}`);
  }
  const spans = new Map<number, object[]>();
  const id = (digits: number): string =>
    Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join("");
  const add = (service: number, span: object): void => void spans.set(service, [...(spans.get(service) ?? []), span]);
  const beginMs = Date.now() - 600_000;
  const times = (ms: number): object => ({
    startTimeUnixNano: `${Math.round(beginMs)}000000`,
    endTimeUnixNano: `${Math.round(beginMs + ms)}000000`,
  });
  for (const pair of pairs) {
    const [from = 0, to = 0] = pair.split(" ").map(Number);
    const traceId = id(32);
    const parentSpanId = id(16);
    add(from, { traceId, spanId: parentSpanId, name: "work", kind: 1, ...times(100) });
    for (let more = 0; more < 1 + random() ** 3 * 20; more++) {
      const status = random() < 0.01 ? { code: 2 } : {};
      add(to, { traceId, spanId: id(16), parentSpanId, name: "work", kind: 2, status, ...times(5 + random() * 80) });
    }
  }
  await app.send("/v1/traces", {
    resourceSpans: [...spans].map(([service, own]) => ({
      resource: { attributes: [{ key: "service.name", value: { stringValue: `load-${service}` } }] },
      scopeSpans: [{ spans: own }],
    })),
  });
  return [...spans.keys()].map((service) => `load-${service}`);
}
