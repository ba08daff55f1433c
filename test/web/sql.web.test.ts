/** The SQL page. */
import { readFile } from "node:fs/promises";
import { tableFromIPC } from "apache-arrow";
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
  await page.getByText(/rows?, .* in/).waitFor();
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

it("says that an answer broke off, and keeps what came", async () => {
  const page = await app.open(address("SELECT time, msg FROM log_entries ORDER BY time"));
  await page.context().route("**/api/query", async (route) => {
    const response = await route.fetch();
    const body = await response.body();
    // Without the frame that ends it.
    await route.fulfill({ response, body: body.subarray(0, body.length - 10) });
  });
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("alert").getByText("ended before it was complete").waitFor();
  expect(Number(await page.getByRole("grid", { name: "Result" }).getAttribute("aria-rowcount"))).toBeGreaterThan(100);
});

it("cancels a query that takes long", async () => {
  const page = await app.open(address("SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b"));
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("Running").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled").waitFor();
  expect(await page.getByRole("button", { name: "Run" }).isVisible()).toBe(true);
});

it.each(["light", "dark"] as const)(
  "draws times and numbers, and takes a drawn span for the time range (%s)",
  async (theme) => {
    const sql =
      "SELECT date_bin(INTERVAL 1 MINUTE, time) AS t, service_name, count(*) AS n FROM log_entries GROUP BY ALL";
    const page = await app.open(address(sql), { theme });
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByText(/rows?, .* in/).waitFor();
    await page.getByRole("button", { name: "Chart" }).click();
    await page.getByRole("button", { name: "checkout" }).waitFor();
    await expectAccessible(page);
    await screenshot(page, `sql-chart-${theme}`);
    const box = await page.getByRole("img", { name: "n over t" }).boundingBox();
    const [x, y] = [(box?.x ?? 0) + 400, (box?.y ?? 0) + 100];
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x + 200, y, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL(/from=20\d\d-.*&to=20\d\d-/u);
    expect(await page.getByRole("button", { name: /Time range/ }).textContent()).toMatch(/20\d\d-\d\d-\d\d .* – /u);
  },
);

it("completes views, columns and keys of attributes", async () => {
  const page = await app.open("/sql");
  const editor = page.getByRole("textbox", { name: "SQL" });
  await editor.click();
  await page.keyboard.press("Control+a");
  await editor.pressSequentially("SELECT attr(properties, 'http.req");
  await page.getByRole("option", { name: /http.request.method/ }).waitFor();
  await page.keyboard.press("Enter");
  await editor.pressSequentially("') FROM log_e");
  await page.getByRole("option", { name: /log_entries/ }).waitFor();
  await screenshot(page, "sql-completion");
  await page.keyboard.press("Enter");
  await editor.pressSequentially(" WHERE serv");
  await page
    .getByRole("option", { name: /service_name/ })
    .first()
    .waitFor();
  expect(await editor.textContent()).toContain("attr(properties, 'http.request.method') FROM log_entries");
});

it("explains, formats, remembers and brings back", async () => {
  const page = await app.open(address("select count(*) from spans where is_error"));
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByRole("region", { name: "Result as text" }).waitFor();
  await page.getByRole("button", { name: "Format the text" }).click();
  const editor = page.getByRole("textbox", { name: "SQL" });
  await expect.poll(() => editor.textContent()).toContain("WHERE");
  await page.keyboard.press("Escape");
  await editor.press("Control+Enter");
  await page.getByRole("grid").waitFor();
  await page.getByRole("button", { name: "History" }).click();
  const history = page.getByRole("complementary", { name: "History" });
  await history
    .getByText(/1 row in/)
    .first()
    .waitFor();
  await expect.poll(() => history.getByRole("listitem").count()).toBe(2);
  await expectAccessible(page);
  await screenshot(page, "sql-history");
  await history.getByText("select count(*) from spans where is_error", { exact: true }).click();
  expect(await editor.textContent()).toContain("select count(*)");
});

it("downloads what is there as CSV, without formulas, and the whole as Arrow", async () => {
  const page = await app.open(
    address(`SELECT 1 AS a, 'x,"y"' AS b, '=1+1' AS c, TIMESTAMP_NS '2026-01-02 03:04:05.123456789' AS d`),
  );
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("grid").waitFor();
  const download = async (name: string): Promise<Buffer> => {
    await page.getByRole("button", { name: "Download" }).click();
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name }).click()]);
    return await readFile(await file.path());
  };
  expect((await download("CSV")).toString()).toBe(`a,b,c,d\r\n1,"x,""y""",'=1+1,2026-01-02T03:04:05.123456789Z\r\n`);
  const arrow = tableFromIPC(await download("Arrow stream"));
  expect([arrow.numRows, arrow.getChild("b")?.get(0)]).toEqual([1, 'x,"y"']);
});
