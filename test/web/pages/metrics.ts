/** Metrics: the catalogue, charts of each kind, and the way from a large value to its trace. */
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { pinch, rangeMs } from "../../helpers/web/touch.js";

const app = sharedApp();

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
  // The controls of a chart stay together, however long its name is.
  const tops = await duration
    .locator("header button")
    .evaluateAll((parts) => parts.map((part) => Math.round(part.getBoundingClientRect().top)));
  expect(new Set(tops).size).toBe(1);
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

it("shows a steady rate at any zoom, of series that report once a minute and at different times", async () => {
  const minute = 60_000;
  const now = Date.now();
  const nano = (ms: number): string => `${Math.round(ms)}000000`;
  const points = (pod: string, lateMs: number, of: (atMs: number, minutes: number) => object): object[] =>
    Array.from({ length: 120 }, (_, i) => 119 - i).map((ago) => {
      const atMs = now - lateMs - ago * minute;
      const attributes = [{ key: "pod", value: { stringValue: pod } }];
      return { timeUnixNano: nano(atMs), attributes, ...of(atMs, 120 - ago) };
    });
  const delta = points("delta", 1000, (atMs) => ({ startTimeUnixNano: nano(atMs - minute), asInt: "60" }));
  const cumulative = points("cumulative", 21_000, (_, minutes) => ({
    startTimeUnixNano: nano(now - 121 * minute),
    asInt: String(minutes * 60),
  }));
  const gauge = points("gauge", 41_000, () => ({ asInt: "60" }));
  const metric = (name: string, kind: object): object => ({ name, ...kind });
  const metrics = [
    metric("steady", { sum: { aggregationTemporality: 1, isMonotonic: true, dataPoints: delta.toSpliced(60, 24) } }),
    metric("steady", { sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: cumulative } }),
    metric("level", { gauge: { dataPoints: gauge } }),
  ];
  await app.send("/v1/metrics", { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] });
  const chart = JSON.stringify(["counter", "rate", "pod", "steady"]);
  for (const from of ["now-13m", "now-1h", "now-100m"]) {
    const page = await app.open(`/metrics?${new URLSearchParams({ chart, from, to: "now" }).toString()}`);
    const region = page.getByRole("region", { name: "steady" });
    for (const pod of ["delta", "cumulative"]) {
      const row = region.getByRole("row").filter({ hasText: pod });
      await row.waitFor();
      const [last, least, most] = (await row.innerText()).match(/\S+\/\S+/gu) ?? [];
      expect([last, most]).toEqual(["1/s", "1/s"]);
      // The hole of the other one begins and ends within a bucket.
      expect(pod === "cumulative" || from === "now-13m" ? least : "1/s").toBe("1/s");
    }
    await screenshot(page, `steady-${from}`);
  }
});

it.each([
  ["light", 1280],
  ["dark", 400],
] as const)(
  "draws what Micrometer sends: units in words, timers without buckets (%s, %i pixels)",
  async (theme, width) => {
    const endMs = Date.now();
    const nano = (ms: number): string => `${ms}000000`;
    const times = Array.from({ length: 20 }, (_, i) => ({
      startTimeUnixNano: nano(endMs - (i + 1) * 15_000),
      timeUnixNano: nano(endMs - i * 15_000),
    }));
    const timers = times.map((time) => ({ ...time, count: "4", sum: 200, bucketCounts: [], explicitBounds: [] }));
    const memory = times.map((time) => ({ ...time, asDouble: 64 << 20 }));
    const metrics = [
      { name: `timer.${theme}`, unit: "milliseconds", histogram: { aggregationTemporality: 1, dataPoints: timers } },
      { name: `memory.${theme}`, unit: "bytes", gauge: { dataPoints: memory } },
    ];
    await app.send("/v1/metrics", { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] });
    const charts = [
      ["gauge", "avg", "service_name", `memory.${theme}`],
      ["histogram", "p95", "service_name", `timer.${theme}`],
    ];
    const query = new URLSearchParams(charts.map((chart): [string, string] => ["chart", JSON.stringify(chart)]));
    const page = await app.open(`/metrics?${query.toString()}`, { theme, width });
    await page
      .getByRole("region", { name: `memory.${theme}` })
      .getByText("64 MiB")
      .first()
      .waitFor();
    const timer = page.getByRole("region", { name: `timer.${theme}` });
    await timer.getByText("choose mean or rate.").waitFor();
    await timer.scrollIntoViewIfNeeded();
    await screenshot(page, `micrometer-${theme}-${width}`);
    await timer.getByRole("combobox", { name: /^Shown of/ }).click();
    await page.getByRole("option", { name: "mean" }).click();
    await timer.getByText("50 ms").first().waitFor();
    expect(await timer.getByText("choose mean or rate.").count()).toBe(0);
  },
);

it.each([
  ["histogram", "bounds", "light", 1280],
  ["exponential_histogram", "zero thresholds", "dark", 400],
] as const)(
  "draws quantiles of the others where those of one service cannot be added up (%s)",
  async (kind, differ, theme, width) => {
    const endMs = Date.now();
    const name = `changed.${kind}`;
    const buckets = (isOther: boolean): object =>
      kind === "histogram"
        ? { bucketCounts: ["0", "4", "0"], explicitBounds: isOther ? [10, 30] : [10, 20] }
        : { scale: 0, zeroThreshold: isOther ? 0.1 : 0, positive: { offset: 4, bucketCounts: ["4"] } };
    const points = (changed: boolean): object[] =>
      Array.from({ length: 40 }, (_, i) => [i, i + 0.5])
        .flat()
        .map((ago) => ({
          startTimeUnixNano: `${endMs - (ago + 1) * 15_000}000000`,
          timeUnixNano: `${endMs - ago * 15_000}000000`,
          count: "4",
          sum: 60,
          ...buckets(changed && (ago < 10 || (ago % 1 !== 0 && ago < 13))),
        }));
    for (const service of ["steady", "changed"]) {
      const dataPoints = points(service === "changed");
      const data = { aggregationTemporality: 1, dataPoints };
      const metric = {
        name,
        unit: "s",
        ...(kind === "histogram" ? { histogram: data } : { exponentialHistogram: data }),
      };
      const attributes = [{ key: "service.name", value: { stringValue: service } }];
      await app.send("/v1/metrics", {
        resourceMetrics: [{ resource: { attributes }, scopeMetrics: [{ metrics: [metric] }] }],
      });
    }
    const query = new URLSearchParams({ chart: JSON.stringify([kind, "p95", "service_name", name]), from: "now-15m" });
    const page = await app.open(`/metrics?${query.toString()}&to=now`, { theme, width });
    const region = page.getByRole("region", { name });
    await region
      .getByText(new RegExp(`^No p95 of changed in \\d steps?: .*different ${differ} cannot be added up`))
      .waitFor();
    await region.getByRole("img").first().waitFor();
    for (const service of ["steady", "changed"]) {
      await region.getByRole("row").filter({ hasText: service }).getByText(/\d s$/).first().waitFor();
    }
    expect(await region.getByRole("alert").count()).toBe(0);
    await screenshot(page, `mixed-${kind}`);
  },
);

it("draws each kind of a name's histograms with its own points and measurements, and says where all buckets are empty", async () => {
  const endMs = Date.now() - 30_000;
  const dataPoint = (value: number, kind: object, count: number): object => ({
    startTimeUnixNano: `${endMs - 15_000}000000`,
    timeUnixNano: `${endMs}000000`,
    count: String(count),
    sum: value * count,
    exemplars:
      count === 0
        ? []
        : [
            {
              timeUnixNano: `${endMs - 1000}000000`,
              asDouble: value,
              traceId: "0af7651916cd43dd8448eb211c80319c",
              spanId: "b7ad6b7169203331",
            },
          ],
    ...kind,
  });
  const explicit = (count: number): object => ({ explicitBounds: [10], bucketCounts: [count, 0] });
  const exponential = { scale: 0, positive: { offset: 5, bucketCounts: ["1"] } };
  const delta = (point: object): object => ({ aggregationTemporality: 1, dataPoints: [point] });
  const metrics = [
    { name: "both.kinds", unit: "s", histogram: delta(dataPoint(3, explicit(1), 1)) },
    { name: "both.kinds", unit: "s", exponentialHistogram: delta(dataPoint(50, exponential, 1)) },
    { name: "no.values", unit: "s", histogram: delta(dataPoint(0, explicit(0), 0)) },
  ];
  await app.send("/v1/metrics", { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] });
  const charts = [
    ["exponential_histogram", "mean", "service_name", "both.kinds"],
    ["histogram", "mean", "service_name", "both.kinds"],
    ["histogram", "heatmap", "", "no.values"],
  ];
  const query = new URLSearchParams(charts.map((chart): [string, string] => ["chart", JSON.stringify(chart)]));
  const page = await app.open(`/metrics?${query.toString()}`);
  for (const [at, value] of ["50 s", "3 s"].entries()) {
    const region = page.getByRole("region", { name: "both.kinds" }).nth(at);
    await region.getByRole("link", { name: value, exact: true }).waitFor();
    expect(await region.getByRole("link").count()).toBe(1);
    const row = region.getByRole("row").filter({ hasText: "unknown_service" });
    expect(await row.getByRole("cell", { name: value, exact: true }).count()).toBe(4);
  }
  await page.getByRole("region", { name: "no.values" }).getByText("every bucket of its points is empty").waitFor();
});

it("leads from a large value to its trace", async () => {
  const chart = JSON.stringify(["histogram", "p99", "", "http.server.request.duration"]);
  const page = await app.open(`/metrics?${new URLSearchParams({ chart }).toString()}`);
  await page.getByText("Traces of large values").getByRole("link").first().click();
  await page.getByRole("treegrid", { name: "Spans" }).getByRole("row").first().waitFor();
  expect(app.shop.traceIds).toContain(new URL(page.url()).pathname.slice("/traces/".length));
});

it.each([
  ["light", 1280, "admin"],
  ["dark", 360, "guest"],
] as const)("draws heatmaps of both kinds of buckets (%s, %i pixels)", async (theme, width, as) => {
  const charts = [
    ["histogram", "p95", "", "http.server.request.duration"],
    ["exponential_histogram", "heatmap", "", "db.client.operation.duration"],
  ];
  const query = new URLSearchParams(charts.map((chart): [string, string] => ["chart", JSON.stringify(chart)]));
  const page = await app.open(`/metrics?${query.toString()}`, { theme, width, as });
  const explicit = page.getByRole("region", { name: "http.server.request.duration" });
  await explicit.getByRole("combobox", { name: /^Shown of/ }).click();
  await page.getByRole("option", { name: "heatmap" }).click();
  await explicit.getByRole("rowheader", { name: "25 ms – 50 ms" }).waitFor();
  const exponential = page.getByRole("region", { name: "db.client.operation.duration" });
  // Its buckets are finer than those of one scale less, and there is one of zero.
  await exponential.getByRole("rowheader", { name: "500 ms – 595 ms" }).waitFor();
  expect(await exponential.getByRole("rowheader", { name: "0", exact: true }).count()).toBe(1);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  await expectAccessible(page);
  await screenshot(page, `heatmap-${theme}-${width}`);
  await exponential.getByRole("combobox", { name: /^Values of/ }).click();
  await page.getByRole("option", { name: "Values: linear" }).click();
  await exponential.getByRole("combobox", { name: /^Colours of/ }).click();
  await page.getByRole("option", { name: "Colours: log" }).click();
  await page.waitForURL((url) => url.searchParams.getAll("chart").some((text) => text.includes('"linear","log"')));
  await exponential.scrollIntoViewIfNeeded();
  await screenshot(page, `heatmap-linear-${theme}-${width}`);
});

it("tells of cells by keyboard, zooms in, and opens the trace of a measurement", async () => {
  const chart = JSON.stringify(["histogram", "heatmap", "", "http.server.request.duration"]);
  const page = await app.open(`/metrics?${new URLSearchParams({ chart }).toString()}`);
  const region = page.getByRole("region", { name: "http.server.request.duration" });
  const plot = region.getByRole("group", { name: /^Heatmap of .* values, most of them 25 ms – 50 ms/ });
  await plot.focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowUp");
  await region
    .getByRole("status")
    .getByText(/\d+ values?, .*m?s/)
    .waitFor({ state: "attached" });
  await screenshot(page, "heatmap-cell");
  const box = await plot.boundingBox();
  const { x, y, width, height } = box ?? { x: 0, y: 0, width: 0, height: 0 };
  // All measurements with a trace took 90 ms: somewhere along one line is one of them.
  const found = async (): Promise<boolean> => (await plot.getAttribute("data-exemplar")) === "true";
  for (let at = 0.3; at < 0.95 && !(await found()); at += 0.01) {
    for (let down = 0.2; down < 0.5 && !(await found()); down += 0.05) {
      await page.mouse.move(x + width * at, y + height * down);
    }
  }
  await screenshot(page, "heatmap-exemplar");
  await page.mouse.down();
  await page.mouse.up();
  await page.getByRole("treegrid", { name: "Spans" }).getByRole("row").first().waitFor();
  expect(app.shop.traceIds).toContain(new URL(page.url()).pathname.slice("/traces/".length));
  await page.goBack();
  await plot.focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.waitForURL(/from=20\d\d/);
  expect(rangeMs(page)).toBeCloseTo(900_000, -2);
  await plot.waitFor();
  await plot.click({ position: { x: width * 0.6, y: height * 0.8 } });
  await expect.poll(() => rangeMs(page)).toBeLessThan(300_000);
  const nearMs = rangeMs(page);
  await pinch(page, plot, [0.3, 0.8], [0.5, 0.6]);
  await expect.poll(() => rangeMs(page)).toBeGreaterThan(nearMs * 3);
  const farMs = rangeMs(page);
  await plot.focus();
  await page.keyboard.press("+");
  await expect.poll(() => rangeMs(page)).toBeLessThan(farMs * 0.6);
});

it("says what to do where there are none", async () => {
  const page = await app.open("/metrics?from=2020-01-01&to=2020-01-02");
  await page.getByText("No metrics in this time range").waitFor();
  await expectAccessible(page);
  expect(await page.getByRole("grid").count()).toBe(0);
});
