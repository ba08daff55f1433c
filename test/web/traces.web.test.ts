/** The search for traces, and a trace. */
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";

import { expectAccessible, screenshot, useApp } from "../helpers/web/app.js";
import { pinch, rangeMs } from "../helpers/web/touch.js";

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

it("shows of a service's name that it is longer than its column", async () => {
  const page = await app.open("/traces?filter=service_name=telemetry-monolith");
  const name = list(page).getByRole("gridcell", { name: "telemetry-monolith" }).first().locator("span").last();
  expect(await name.evaluate((part) => part.scrollWidth > part.clientWidth)).toBe(true);
  expect(await name.evaluate((part) => part.computedStyleMap().get("text-overflow")?.toString())).toBe("ellipsis");
});

it("has room for long names and deep spans on a narrow screen", async () => {
  const service = `a-service-${"with-a-long-name-".repeat(5)}`;
  const traceId = "5b".repeat(16);
  const id = (at: number): string => String(at).padStart(16, "0");
  await app.send("/v1/traces", {
    resourceSpans: [
      {
        resource: { attributes: [{ key: "service.name", value: { stringValue: service } }] },
        scopeSpans: [
          {
            spans: Array.from({ length: 20 }, (_, at) => ({
              traceId,
              spanId: id(at + 1),
              ...(at === 0 ? {} : { parentSpanId: id(at) }),
              name: `span ${at}`,
              kind: 2,
              startTimeUnixNano: `${Date.now() - 1000}000000`,
              endTimeUnixNano: `${Date.now()}000000`,
            })),
          },
        ],
      },
    ],
  });
  const page = await app.open(`/services/${service}`, { width: 390 });
  const rightOf = async (name: string): Promise<number> => {
    const box = await page.getByRole("heading", { name, level: 2 }).boundingBox();
    return (box?.x ?? 0) + (box?.width ?? 1000);
  };
  expect(await rightOf(service)).toBeLessThanOrEqual(390);
  await page.goto(`${app.url}/traces/${traceId}`);
  const deepest = spans(page).getByText("span 19");
  await deepest.waitFor();
  expect(await rightOf(service)).toBeLessThanOrEqual(390);
  expect((await deepest.boundingBox())?.x).toBeLessThan(150);
});

/** Of an element: the colour that the system gives, where it does; its computed style map has the page's. */
const shownBackground = (part: Locator): Promise<string> =>
  part.evaluate((element) => {
    const { getComputedStyle } = globalThis as unknown as {
      getComputedStyle: (of: unknown) => { readonly backgroundColor: string };
    };
    return getComputedStyle(element).backgroundColor;
  });

it("keeps the colours of data, and shows what is chosen, where the system gives the colours", async () => {
  const page = await app.open(`/traces/${app.shop.traceIds[0] ?? ""}`);
  await page.emulateMedia({ forcedColors: "active" });
  const bar = spans(page).getByRole("row").first().locator('[style*="background"]').last();
  expect(await shownBackground(bar)).not.toBe("rgb(255, 255, 255)");
  const current = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Traces" });
  expect(await current.evaluate((part) => part.computedStyleMap().get("outline-style")?.toString())).toBe("solid");
});

it.each([
  ["/logs", (page: Page) => page.getByRole("status").getByTitle("error", { exact: true })],
  ["/services?view=map", (page: Page) => page.getByText("from 5%").locator("span")],
] as const)("says on %s which colour is whose, where the system gives the colours", async (path, keyOf) => {
  const page = await app.open(path);
  await page.emulateMedia({ forcedColors: "active" });
  const key = keyOf(page).first();
  await key.waitFor();
  expect(await shownBackground(key)).not.toMatch(/rgb\(255, 255, 255\)|rgba\(0, 0, 0, 0\)/);
});

it("keeps the panel of a span with a long name within the page", async () => {
  const traceId = "5a".repeat(16);
  const [name, time] = [`SELECT ${"column, ".repeat(100)}`, `${Date.now()}000000`];
  const span = { traceId, spanId: "5a".repeat(8), name, startTimeUnixNano: time, endTimeUnixNano: time };
  await app.send("/v1/traces", { resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] });
  const page = await app.open(`/traces/${traceId}`);
  await spans(page).getByRole("row").first().click();
  const panel = page.getByRole("complementary");
  for (const part of [panel.getByRole("button", { name: "Close" }), panel.getByText(traceId)]) {
    const { x = 0, width = 0 } = (await part.boundingBox()) ?? {};
    expect(x + width).toBeLessThanOrEqual(1280);
  }
  await screenshot(page, "span-long-name");
});

it("leaves the name of a span room beside a long name of its service", async () => {
  const traceId = "5b".repeat(16);
  const time = `${Date.now()}000000`;
  const span = { traceId, spanId: "5b".repeat(8), name: "GET /cart", startTimeUnixNano: time, endTimeUnixNano: time };
  const service = `${"a-very-long-service-".repeat(8)}name`;
  const attributes = [{ key: "service.name", value: { stringValue: service } }];
  await app.send("/v1/traces", { resourceSpans: [{ resource: { attributes }, scopeSpans: [{ spans: [span] }] }] });
  const page = await app.open(`/traces/${traceId}`);
  await spans(page).getByText("GET /cart").waitFor();
  const ends = await page.evaluate<readonly [number, number]>(`(() => {
    const cell = document.querySelector('[role="treegrid"] [role="gridcell"]');
    const text = document.createRange();
    text.selectNode(cell.lastElementChild.lastChild);
    return [text.getBoundingClientRect().right, cell.getBoundingClientRect().right];
  })()`);
  expect(ends[0]).toBeLessThanOrEqual(ends[1]);
});

it("shows a failed span in full, with markup as text, and what was logged in it", async () => {
  // Of the shop: what the service says of itself may fail, too, and without an exception.
  const page = await app.open("/traces?filter=service_name=gateway&error=1", { theme: "dark" });
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

it("keeps what somebody does with a trace while it is read again, and has more spans", async () => {
  const traceId = "f".repeat(32);
  const beginMs = Date.now() - 60_000;
  const send = (name: string, digit: string, ms: number, parent = {}): Promise<void> => {
    const nano = (at: number): string => `${beginMs + at}000000`;
    const ids = { traceId, spanId: digit.repeat(16), ...parent };
    const span = { ...ids, name, kind: 1, startTimeUnixNano: nano(ms), endTimeUnixNano: nano(ms + 50) };
    const resource = { attributes: [{ key: "service.name", value: { stringValue: "nightly" } }] };
    return app.send("/v1/traces", { resourceSpans: [{ resource, scopeSpans: [{ spans: [span] }] }] });
  };
  await send("backup", "1", 100);
  await send("copy", "2", 110, { parentSpanId: "1".repeat(16) });
  const page = await app.open(`/traces/${traceId}?refresh=5s`);
  const rows = spans(page).getByRole("row");
  await rows.filter({ hasText: "copy" }).waitFor();
  await spans(page).press("ArrowLeft"); // closes the root
  await rows.filter({ hasText: "copy" }).waitFor({ state: "detached" });
  const field = page.getByRole("searchbox", { name: "Search in this trace" });
  await field.fill("back");
  await rows.filter({ hasText: "backup" }).click();
  const panel = page.getByRole("complementary", { name: "backup" });
  for (const kept of [field, panel.getByRole("region", { name: "Process" })]) {
    await kept.evaluate((element) => element.setAttribute("data-kept", ""));
  }
  await send("earlier", "3", 0);
  await rows.filter({ hasText: "earlier" }).waitFor();
  expect(await page.locator("[data-kept]").count()).toBe(2);
  expect(await field.inputValue()).toBe("back");
  expect(await rows.allTextContents()).toEqual([expect.stringMatching(/earlier/), expect.stringMatching(/backup/)]);
  expect(await rows.last().getAttribute("aria-selected")).toBe("true");
  await spans(page).press("Enter"); // closes the panel of the active span
  await panel.waitFor({ state: "detached" });
});

it.each([
  ["at its begin", "4a", 0],
  ["in its middle", "4b", 150],
] as const)("shows all spans of a trace of four hours that is opened %s", async (_, digits, atMinute) => {
  const beginMs = Date.now() - 5 * 3_600_000;
  const span = (id: number, name: string, begin: number, end: number): object => ({
    traceId: digits.repeat(16),
    spanId: String(id).padStart(16, "0"),
    ...(id === 1 ? {} : { parentSpanId: "1".padStart(16, "0") }),
    name,
    startTimeUnixNano: `${beginMs + begin * 60_000}000000`,
    endTimeUnixNano: `${beginMs + end * 60_000}000000`,
  });
  const job = [span(1, "job", 0, 240), span(2, "first", 1, 9), span(3, "middle", 140, 160), span(4, "last", 230, 240)];
  await app.send("/v1/traces", { resourceSpans: [{ scopeSpans: [{ spans: job }] }] });
  const at = new Date(beginMs + atMinute * 60_000).toISOString();
  const page = await app.open(`/traces/${digits.repeat(16)}?at=${at}`);
  await expect.poll(() => spans(page).getByRole("row").count()).toBe(4);
});

it("says where it looked for a trace, and looks for what comes after a long pause", async () => {
  const beginMs = Date.now() - 5 * 3_600_000;
  const traceId = "4e".repeat(16);
  const span = (id: number, minute: number): object => ({
    traceId,
    spanId: String(id).padStart(16, "0"),
    ...(id === 1 ? {} : { parentSpanId: "1".padStart(16, "0") }),
    name: `part ${id}`,
    startTimeUnixNano: `${beginMs + minute * 60_000}000000`,
    endTimeUnixNano: `${beginMs + minute * 60_000 + 900}000000`,
  });
  await app.send("/v1/traces", { resourceSpans: [{ scopeSpans: [{ spans: [span(1, 0), span(2, 200)] }] }] });
  const page = await app.open(`/traces/${traceId}?at=${new Date(beginMs).toISOString()}`, { allow: /ERR_FAILED/ });
  await page.getByText("within an hour of it").waitFor();
  expect(await spans(page).getByRole("row").count()).toBe(1);
  await screenshot(page, "trace-within");
  await page.route("**/api/query", (route) => route.abort());
  await page.getByRole("button", { name: "Look at all times" }).click();
  const failed = page.getByRole("alert").filter({ hasText: "The trace could not be read" });
  await failed.waitFor();
  expect(await page.getByText("within an hour of it").count()).toBe(1);
  await page.unroute("**/api/query");
  await failed.getByRole("button").click();
  await expect.poll(() => spans(page).getByRole("row").count()).toBe(2);
  await page.getByText("at all times", { exact: true }).waitFor();
  expect(await page.evaluate("document.activeElement.id")).toBe("page"); // where the button was, nearly
  expect(new URL(page.url()).search).toBe("");
});

it("looks everywhere for a trace once, and only if it may not be whole", async () => {
  const page = await app.open("/traces?filter=service_name=gateway");
  const asked: string[] = [];
  page.on("request", (request) => {
    const body = request.postData() ?? "";
    if (body.includes("trace_tree(")) {
      asked.push(body.includes('"begin":') ? "around" : "everywhere");
    }
  });
  const refresh = async (): Promise<void> => {
    const before = asked.length;
    await page.keyboard.press("Control+k");
    await page.keyboard.type("Refresh");
    await page.keyboard.press("Enter");
    await expect.poll(() => asked.length).toBeGreaterThan(before);
  };
  await list(page).getByRole("row").nth(1).waitFor();
  await list(page).press("Enter");
  await spans(page).getByRole("row").first().waitFor();
  await refresh();
  expect(asked.splice(0)).toEqual(["around", "around"]);
  const traceId = "4c".repeat(16);
  const time = `${Date.now()}000000`;
  const ids = { traceId, spanId: "4c".repeat(8), parentSpanId: "4d".repeat(8) };
  const orphan = { ...ids, name: "orphan", startTimeUnixNano: time, endTimeUnixNano: time };
  await app.send("/v1/traces", { resourceSpans: [{ scopeSpans: [{ spans: [orphan] }] }] });
  await page.goto(`${app.url}/traces/${traceId}?at=${new Date().toISOString()}`);
  await page.getByText("Spans whose parent is not there").waitFor();
  await expect.poll(() => asked.length).toBe(2);
  await refresh();
  expect(asked).toEqual(["around", "everywhere", "everywhere"]);
});

it.each([
  ["light", 1280, "admin"],
  ["dark", 360, "guest"],
] as const)("compares two traces of the list (%s, %i pixels)", async (theme, width, as) => {
  const page = await app.open("/traces?filter=service_name=gateway&filter=name=GET%20/login&order=slowest", {
    theme,
    width,
    as,
  });
  await list(page).getByRole("row").nth(2).waitFor();
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByText("Choose the first of two traces").waitFor();
  await list(page).press("Enter");
  await page.getByText(/Choose a trace to compare with [0-9a-f]{8}…/).waitFor();
  await expectAccessible(page);
  await screenshot(page, `compare-choose-${theme}-${width}`);
  await list(page).press("Enter"); // the same one
  await page.getByText("That is the first trace").waitFor();
  await list(page).press("j");
  await list(page).press("Enter");
  const table = page.getByRole("grid", { name: "Spans of both traces" });
  await table.getByRole("row").nth(1).waitFor();
  await page.getByText(/[1-9]\d* in both, \d+ only in A, \d+ only in B/).waitFor();
  const { searchParams } = new URL(page.url());
  const [a = "", b = ""] = ["a", "b"].map((name) => searchParams.get(name)?.split(",")[0]);
  expect(app.shop.traceIds).toEqual(expect.arrayContaining([a, b]));
  expect(a).not.toBe(b);
  await expectAccessible(page);
  await screenshot(page, `compare-${theme}-${width}`);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await table.press("Enter");
  const panel = page.getByRole("complementary");
  await panel.getByRole("row", { name: /^Took / }).waitFor();
  await expectAccessible(page);
  await screenshot(page, `compare-pair-${theme}-${width}`);
  await page.reload(); // traces and row are in the address
  await panel.getByRole("row", { name: /^Took / }).waitFor();
  await panel.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Swap" }).click();
  await page.waitForURL((url) => url.searchParams.get("a")?.startsWith(b) === true);
  await table.getByRole("row").nth(1).waitFor();
});

it("compares a trace with one that has other spans, and marks what only one has", async () => {
  const [one, other] = ["d", "e"].map((digit) => digit.repeat(32));
  const beginMs = Date.now() - 120_000;
  const nano = (ms: number): string => `${Math.round((beginMs + ms) * 1000)}000`;
  const spans = (traceId: string, rows: readonly (readonly [string, number, number])[]): object[] =>
    rows.map(([name, begin, end], at) => ({
      traceId,
      spanId: (at + 1).toString(16).padStart(16, "0"),
      ...(at === 0 ? {} : { parentSpanId: "1".padStart(16, "0") }),
      name,
      kind: 1,
      startTimeUnixNano: nano(begin),
      endTimeUnixNano: nano(end),
      attributes: [{ key: "run", value: { stringValue: `<b>${traceId[0]}</b>` } }],
    }));
  await app.send("/v1/traces", {
    resourceSpans: [
      {
        resource: { attributes: [{ key: "service.name", value: { stringValue: "batch" } }] },
        scopeSpans: [
          {
            spans: [
              ...spans(one ?? "", [
                ["night run", 0, 100],
                ["read", 1, 30],
                ["check", 40, 60],
              ]),
              ...spans(other ?? "", [
                ["night run", 0, 160],
                ["read", 1, 31],
                ["retry", 32, 62],
                ["retry", 63, 150],
              ]),
            ],
          },
        ],
      },
    ],
  });
  const page = await app.open(`/traces/${one}`);
  await page.getByRole("link", { name: "Compare with…" }).click();
  await page.getByText("Choose a trace to compare with dddddddd…").waitFor();
  expect(new URL(page.url()).searchParams.getAll("filter")).toEqual(["service_name=batch", "name=night run"]);
  await list(page).getByRole("row").filter({ hasText: "160 ms" }).click();
  const table = page.getByRole("grid", { name: "Spans of both traces" });
  await page.getByText("2 in both, 1 only in A, 2 only in B").waitFor();
  await table.getByRole("row").filter({ hasText: "night run" }).getByText("+60 ms", { exact: true }).waitFor();
  await table.getByRole("row").filter({ hasText: "check" }).getByText("only in A").first().waitFor();
  await table.getByRole("columnheader", { name: "Difference" }).click();
  await table.getByRole("columnheader", { name: "Difference" }).click();
  expect(await table.getByRole("row").nth(1).textContent()).toMatch(/^retry/);
  await table.getByRole("row").filter({ hasText: "read" }).click();
  const panel = page.getByRole("complementary", { name: "read" });
  await panel.getByRole("row", { name: "run <b>d</b> <b>e</b>" }).waitFor();
  await screenshot(page, "compare-marked");
  await panel.getByRole("link", { name: "B Open in its trace" }).click();
  await page.waitForURL(new RegExp(`/traces/${other}.*span=`));
});

it("says which traces it needs to compare", async () => {
  const page = await app.open("/traces/compare?a=nonsense&b=%00");
  await page.getByRole("link", { name: "Choose two traces" }).click();
  await page.getByText("Choose the first of two traces").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.waitForURL((url) => url.pathname === "/traces" && url.search === "");
  await page.goto(`${app.url}/traces/compare?a=${"0".repeat(32)}&b=${app.shop.traceIds[0] ?? ""}`);
  expect(await page.getByText("One of the traces is not there").textContent()).not.toBe("");
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

it("zooms the points and the waterfall with two fingers, and the points with the keyboard", async () => {
  const page = await app.open("/traces");
  await list(page).getByRole("row").nth(1).waitFor();
  const points = page.getByRole("group", { name: "Traces over time: + and - zoom, arrows move" });
  await points.focus();
  await page.keyboard.press("+");
  await expect.poll(() => rangeMs(page)).toBe(30 * 60_000);
  await pinch(page, points, [0.4, 0.6], [0.2, 0.8]);
  await expect.poll(() => rangeMs(page)).toBeLessThan(11 * 60_000);
  expect(new URL(page.url()).pathname).toBe("/traces"); // no point was opened by it
  await page.goto(`${app.url}/traces/${app.shop.traceIds[0] ?? ""}`);
  const time = spans(page).getByRole("gridcell").nth(1);
  await time.waitFor();
  await pinch(page, time, [0.4, 0.6], [0.2, 0.8]);
  const zoom = (): readonly string[] => /zoom=([\d.]+)-([\d.]+)/.exec(page.url())?.slice(1) ?? [];
  // The middle is where it was. The address follows while fingers move.
  await expect.poll(() => Number(zoom()[1]) / Number(zoom()[0])).toBeCloseTo(2, 0);
  const [begin = "", end = ""] = zoom();
  await spans(page).press("+");
  await page.waitForURL((url) => !url.search.includes(`zoom=${begin}-${end}`) && url.search.includes("zoom="));
  await spans(page).press("0");
  await page.waitForURL((url) => !url.search.includes("zoom"));
});

it("zooms to where two fingers left, however late they moved", async () => {
  const page = await app.open("/traces");
  await list(page).getByRole("row").nth(1).waitFor();
  const points = page.getByRole("group", { name: "Traces over time: + and - zoom, arrows move" });
  // The last move comes when the hand has nearly rested, and the page is busy until it has.
  await points.evaluate(async (host) => {
    const { PointerEvent: Pointer } = globalThis as unknown as { PointerEvent: new (type: string, o: object) => Event };
    const { left, width, top } = host.getBoundingClientRect();
    const fire = (type: string, places: readonly number[]): void => {
      places.forEach((place, pointerId) => {
        const where = { clientX: left + width * place, clientY: top + 9, pointerId, isPrimary: pointerId === 0 };
        host.dispatchEvent(new Pointer(type, { pointerType: "touch", bubbles: true, ...where }));
      });
    };
    const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
    host.setPointerCapture = () => undefined;
    fire("pointerdown", [0.4, 0.6]);
    fire("pointermove", [0.3, 0.7]);
    await sleep(270);
    fire("pointermove", [0.2, 0.8]);
    fire("pointerup", [0.2, 0.8]);
    const until = performance.now() + 200;
    while (performance.now() < until) {
      // Nothing else runs.
    }
  });
  await expect.poll(() => rangeMs(page)).toBeLessThan(21 * 60_000);
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
