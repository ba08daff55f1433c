/** The SQL page. */
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { DuckDBInstance } from "@duckdb/node-api";
import { tableFromIPC } from "apache-arrow";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";

const app = sharedApp();

const address = (sql: string): string => `/sql?${new URLSearchParams({ sql }).toString()}`;

it.each(["light", "dark"] as const)("runs a query and shows its rows (%s)", async (theme) => {
  const sql =
    "SELECT time, service_name, level_name, msg, properties FROM log_entries WHERE service_name = 'gateway' ORDER BY time DESC";
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

it("sorts by the column of the cell where somebody is, with the keyboard alone", async () => {
  const page = await app.open(address("SELECT * FROM (VALUES (1, 'b'), (2, 'c'), (3, 'a')) v(n, name)"));
  await page.getByRole("button", { name: "Run" }).click();
  const grid = page.getByRole("grid", { name: "Result" });
  await grid.getByRole("gridcell", { name: "b" }).waitFor();
  await grid.press("ArrowRight");
  await grid.press("s");
  await page.waitForURL(/sort=name/);
  expect(await grid.getByRole("columnheader", { name: "name" }).getAttribute("aria-sort")).toBe("ascending");
  expect(await grid.getByRole("gridcell").allTextContents()).toEqual(["3", "a", "1", "b", "2", "c"]);
  expect(await grid.getAttribute("aria-description")).toContain("S sorts");
});

it("makes a column wider and narrower with the keyboard", async () => {
  const page = await app.open(address("SELECT 1 AS n, 'b' AS constructor, 3 AS m"));
  await page.getByRole("button", { name: "Run" }).click();
  const grid = page.getByRole("grid", { name: "Result" });
  await grid.getByRole("gridcell", { name: "b" }).waitFor();
  const width = async (): Promise<number> =>
    (await grid.getByRole("columnheader", { name: "constructor" }).boundingBox())?.width ?? 0;
  const before = await width();
  await grid.press("ArrowRight");
  for (const [keys, wider] of [
    ["++", 40],
    ["-", 20],
  ] as const) {
    await page.keyboard.type(keys);
    expect(await width()).toBe(before + wider);
    await page.waitForURL(new RegExp(`widths=constructor:${before + wider}$`));
  }
  expect(await grid.getAttribute("aria-description")).toContain("+ and - change its width");
});

it.each(["cell", "button"])("says that the browser keeps the page from the clipboard (%s)", async (which) => {
  const page = await app.open("/sql");
  // As without https.
  await page.addInitScript(`Object.defineProperty(navigator, "clipboard", { value: undefined })`);
  await page.goto(`${app.url}${address("SELECT 42 AS n")}`);
  await page.getByRole("button", { name: "Run" }).click();
  const grid = page.getByRole("grid", { name: "Result" });
  await grid.getByRole("gridcell", { name: "42" }).waitFor();
  if (which === "cell") {
    await grid.press("c");
  } else {
    await grid.press("Enter");
    const copy = page.getByRole("complementary").getByRole("button", { name: /^Copy/ }).first();
    await copy.click();
  }
  await page
    .getByText(/The browser keeps this page from the clipboard/)
    .first()
    .waitFor();
  expect(await page.getByRole("button", { name: "Copied", exact: true }).count()).toBe(0);
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
    .getByText(/"nonsense" not found/)
    .waitFor();
  expect(await page.getByRole("alert").textContent()).toMatch(/Request id [0-9a-f-]{36}/);
  // Letters of one width: the mark is below the letter that it means.
  const place = page.getByRole("group", { name: "Place in the query" });
  expect(await place.textContent()).toMatch(/^LINE 1: SELECT nonsense FROM log_entries\n {15}\^/);
  expect(await place.evaluate((part) => part.computedStyleMap().get("font-family")?.toString())).toContain("Mono");
  await expectAccessible(page);
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

it("asks again when the server has no place for a query", async () => {
  const page = await app.open(address("SELECT 'in the end' AS came"), { allow: /503/ });
  let refusals = 0;
  await page.context().route("**/api/query", async (route) => {
    if (refusals === 2) {
      return route.continue();
    }
    refusals++;
    const body = JSON.stringify({ code: "OVERLOADED", message: "the server is overloaded; try again later" });
    return route.fulfill({ status: 503, contentType: "application/json", headers: { "retry-after": "0" }, body });
  });
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("grid", { name: "Result" }).getByText("in the end").waitFor();
  expect(refusals).toBe(2);
});

it("cancels a query that takes long", async () => {
  const page = await app.open(address("SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b"));
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("Running").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled").waitFor();
  await expect.poll(() => page.getByRole("button", { name: "Run" }).isVisible()).toBe(true);
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

it("says how the keyboard leaves the editor, and lets it", async () => {
  const page = await app.open(address("SELECT 1"));
  await page.getByText("leave the editor with Escape, then Tab").waitFor();
  const editor = page.getByRole("textbox", { name: "SQL" });
  expect(await editor.getAttribute("aria-description")).toContain("Escape, then Tab");
  await editor.press("Escape");
  await editor.press("Tab");
  expect(await page.evaluate("document.activeElement.textContent")).toContain("Run");
  expect(await editor.textContent()).toBe("SELECT 1");
});

/** The editor takes no Enter for 75 ms after it shows a list, so that nobody accepts what he has not seen. */
const listMs = 100;

it("completes views, columns and keys of attributes", async () => {
  const page = await app.open("/sql");
  const editor = page.getByRole("textbox", { name: "SQL" });
  await editor.click();
  await page.keyboard.press("Control+a");
  await editor.pressSequentially("SELECT attr(properties, 'http.req");
  await page.getByRole("option", { name: /http.request.method/ }).waitFor();
  await sleep(listMs);
  await page.keyboard.press("Enter");
  await editor.pressSequentially("') FROM log_e");
  await page.getByRole("option", { name: /log_entries/ }).waitFor();
  await screenshot(page, "sql-completion");
  await sleep(listMs);
  await page.keyboard.press("Enter");
  await editor.pressSequentially(" WHERE serv");
  await page
    .getByRole("option", { name: /service_name/ })
    .first()
    .waitFor();
  expect(await editor.textContent()).toContain("attr(properties, 'http.request.method') FROM log_entries");
});

it("completes the key of an attribute as a text of SQL", async () => {
  const key = "who's.to') say";
  const logRecord = {
    timeUnixNano: `${Date.now()}000000`,
    attributes: [{ key, value: { stringValue: "whole" } }],
  };
  await app.send("/v1/logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [logRecord] }] }] });
  const page = await app.open("/sql");
  const editor = page.getByRole("textbox", { name: "SQL" });
  await editor.click();
  await page.keyboard.press("Control+a");
  await editor.pressSequentially("SELECT DISTINCT attr(properties, 'who");
  await page.getByRole("option", { name: key }).waitFor();
  await sleep(listMs);
  await page.keyboard.press("Enter");
  await editor.pressSequentially("')"); // over those that the editor has put there
  await page.keyboard.insertText(" AS found FROM log_entries ORDER BY 1 LIMIT 1");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("grid", { name: "Result" }).getByText("whole").waitFor();
  expect(await editor.textContent()).toContain("attr(properties, 'who''s.to'') say') AS found");
});

it.each([1280, 400])("leaves the controls free while it offers completions (%i px wide)", async (width) => {
  const page = await app.open(address("SELECT 1\n".repeat(width > 400 ? 4 : 2)), { width });
  const editor = page.getByRole("textbox", { name: "SQL" });
  const options = page.getByRole("listbox").getByRole("option");
  await editor.press("Control+Home");
  for (let line = 0; line < (width > 400 ? 4 : 2); line++) {
    await page.keyboard.press("End");
    await editor.pressSequentially(" FROM l");
    await page.getByRole("option", { name: /log_entries/ }).waitFor();
    // A letter later the list is another one.
    const endsAbove = async (): Promise<number> => {
      const list = await page.getByRole("listbox").boundingBox();
      const controls = await page.getByRole("button", { name: "Run" }).boundingBox();
      return list === null || controls === null || list.height <= 24 ? -1 : controls.y - list.y - list.height;
    };
    await expect.poll(endsAbove).toBeGreaterThanOrEqual(0);
    expect(await options.first().isVisible()).toBe(true);
    await page.keyboard.press("Escape");
    await page.keyboard.press("ArrowDown");
  }
  await editor.press("Control+a");
  await page.keyboard.insertText("SELECT count(*) AS n FROM ");
  await editor.pressSequentially("log_e");
  await page.getByRole("option", { name: /log_entries/ }).waitFor();
  await page.getByRole("button", { name: "Format the text" }).click();
  await expect.poll(() => editor.textContent()).toContain("FROM  log_e");
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

it("shows what was picked from the history in place of it on a narrow screen", async () => {
  const page = await app.open(address("SELECT 41 + 1 AS answer"), { width: 400 });
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/1 row, .* in/).waitFor();
  await page.getByRole("button", { name: "History" }).click();
  await page.getByRole("complementary", { name: "History" }).getByText("SELECT 41 + 1 AS answer").click();
  await page.getByRole("textbox", { name: "SQL" }).getByText("SELECT").waitFor();
  expect(await page.getByRole("complementary", { name: "History" }).count()).toBe(0);
});

it("keeps the focus of who explains by keyboard, and of who forgets what was asked", async () => {
  const page = await app.open(address("SELECT 1"));
  const explain = page.getByRole("button", { name: "Explain" });
  await explain.press("Enter");
  await page.getByRole("region", { name: "Result as text" }).waitFor();
  expect(await explain.evaluate((button) => button.matches(":focus"))).toBe(true);
  await page.getByRole("button", { name: "History" }).press("Enter");
  const history = page.getByRole("complementary", { name: "History" });
  await history.getByRole("button", { name: "Forget all" }).press("Enter");
  await history.getByText("Nothing asked yet").waitFor();
  expect(await history.evaluate((panel) => panel.matches(":focus"))).toBe(true);
});

it("tells rows of the query before from those of one that was cancelled or failed", async () => {
  const page = await app.open(address("SELECT range AS n FROM range(1500)"), { allow: /400/ });
  const run = page.getByRole("button", { name: "Run" });
  const ask = async (sql: string): Promise<void> => {
    await page.getByRole("textbox", { name: "SQL" }).press("Control+a");
    await page.keyboard.insertText(sql);
    await run.click();
  };
  const old = page.locator("[aria-busy='true']");
  const download = page.getByRole("button", { name: "Download" });
  await run.click();
  await page.getByText(/^1,500 rows, /).waitFor();
  expect(await download.isEnabled()).toBe(true);
  await ask("SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b");
  await page.getByText("Running").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled", { exact: true }).waitFor({ timeout: 10_000 });
  expect(await old.count()).toBe(1);
  expect(await download.isEnabled()).toBe(false);
  await ask("SELECT nonsense FROM log_entries");
  await page.getByRole("alert").waitFor();
  await run.waitFor();
  expect(await old.count()).toBe(1);
  await ask("SELECT 42");
  await page.getByText(/^1 row, /).waitFor();
  expect(await old.count()).toBe(0);
});

it("closes the panel of a row when another query runs", async () => {
  const page = await app.open(address("SELECT range AS n, 'first' AS word FROM range(5)"));
  const run = page.getByRole("button", { name: "Run" });
  const grid = page.getByRole("grid", { name: "Result" });
  const panel = page.getByRole("complementary", { name: "Row 3" });
  await run.click();
  await grid.getByText("first").nth(2).click();
  await panel.waitFor();
  const asked = page.waitForResponse("**/api/query");
  await run.click();
  await asked;
  await grid.and(page.locator(":not([aria-busy='true'])")).waitFor();
  await panel.waitFor();
  await page.getByRole("textbox", { name: "SQL" }).press("Control+a");
  await page.keyboard.insertText("SELECT range AS n, 'second' AS word FROM range(5)");
  await run.click();
  await grid.getByText("second").first().waitFor();
  expect(await panel.count()).toBe(0);
});

it("says in the name of a file that rows are missing in it", async () => {
  const page = await app.open(`${address("SELECT range AS n FROM range(1500)")}&limit=1000`);
  const nameOf = async (): Promise<string> => {
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByRole("button", { name: "Download" }).click();
    const saved = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: "CSV" }).click();
    return (await saved).suggestedFilename();
  };
  expect(await nameOf()).toMatch(/^telemetry-.*-partial\.csv$/);
  await page.goto(`${app.url}${address("SELECT time, msg FROM log_entries ORDER BY time")}`);
  await page.context().route("**/api/query", async (route) => {
    const response = await route.fetch();
    const body = await response.body();
    await route.fulfill({ response, body: body.subarray(0, body.length - 10) });
  });
  expect(await nameOf()).toMatch(/^telemetry-.*-partial\.csv$/);
});

it("formats what was typed until then", async () => {
  const page = await app.open(address("select 1 as first"));
  const editor = page.getByRole("textbox", { name: "SQL" });
  await editor.waitFor();
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/assets/**", async (route) => {
    await held;
    await route.continue();
  });
  const asked = page.waitForRequest("**/assets/**");
  await page.getByRole("button", { name: "Format the text" }).click();
  await asked;
  await editor.press("Control+End");
  await page.keyboard.insertText(", 2 as second");
  release();
  await expect.poll(() => editor.textContent()).toContain("SELECT");
  expect(await editor.textContent()).toContain("second");
});

it("keeps what was typed and has not run, over other pages and a reload", async () => {
  const page = await app.open(address("SELECT 1"));
  const editor = page.getByRole("textbox", { name: "SQL" });
  await editor.press("Control+End");
  await page.keyboard.insertText(" AS typed");
  await page.getByRole("link", { name: "Processes" }).click();
  await page.waitForURL("**/processes**");
  await page.goBack();
  await expect.poll(() => editor.textContent()).toBe("SELECT 1 AS typed");
  await editor.press("Control+End");
  await page.keyboard.insertText(" AS more");
  await page.reload();
  await expect.poll(() => editor.textContent()).toBe("SELECT 1 AS typed AS more");
  // Another address has a text of its own.
  await page.goto(`${app.url}${address("SELECT 3")}`);
  await expect.poll(() => editor.textContent()).toBe("SELECT 3");
});

/** Chooses a download and gives what the browser saved. */
async function download(page: Page, name: string): Promise<string> {
  await page.getByRole("button", { name: "Download" }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name }).click()]);
  return await file.path();
}

it("downloads a result as Parquet that another engine reads with the same types and values", async () => {
  const sql = `SELECT i, i % 3 = 0 AS truth, (i - 5)::TINYINT AS tiny, (i * 20)::UTINYINT AS utiny, (i * 1000)::SMALLINT AS small,
      (4294967295 - i)::UINTEGER AS u32, 18446744073709551615::UBIGINT - i::UBIGINT AS u64, -i * 9007199254740993 AS big,
      i / 7 AS ratio, (i / 8)::FLOAT AS real, (i - 5)::DECIMAL(12, 3) / 8 AS quotient, (i * -12.345)::DECIMAL(38, 5) AS price,
      TIMESTAMP_NS '2026-01-02 03:04:05.123456789' + INTERVAL (i) HOUR AS at, TIMESTAMP '2026-01-02 03:04:05.123456' AS micros,
      TIMESTAMP_MS '1969-12-31 23:59:59.999' AS millis, DATE '2026-01-31' - i::INTEGER AS day,
      TIME '12:34:56.789012' AS clock, INTERVAL '3 months 2 days 1.5 seconds' AS gap,
      CASE WHEN i % 4 > 0 THEN 'text ' || repeat('ü', i::INTEGER) END AS text, encode('bytes ' || i) AS bytes,
      ['fatal', 'error', NULL][(i % 3 + 1)::INTEGER]::ENUM('fatal', 'error', 'info') AS level,
      CASE WHEN i % 5 <> 1 THEN list_transform(range(i % 4), lambda x: CASE WHEN x <> 1 THEN 'e' || x END) END AS list,
      [[i, NULL], [], NULL] AS lists, [i, i + 1]::BIGINT[2] AS pair,
      CASE WHEN i <> 3 THEN {'a': i, 'b': NULLIF(i, 4)::VARCHAR, 'c': {'d': [i]}} END AS struct,
      CASE WHEN i <> 2 THEN MAP {'k' || i: i, 'n': NULL} END AS map, MAP([]::VARCHAR[], []::INTEGER[]) AS none,
      NULL::VARCHAR AS nothing, i AS "i"
    FROM range(11) AS r(i) ORDER BY i`;
  const page = await app.open(address(sql));
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/11 rows, .* in/).waitFor();
  const file = await download(page, "Parquet");
  const instance = await DuckDBInstance.create(":memory:");
  const engine = await instance.connect();
  const read = async (text: string) => {
    const reader = await engine.runAndReadAll(text);
    return { names: reader.columnNames(), types: reader.columnTypes().map(String), rows: reader.getRowsJson() };
  };
  const expected = await read(sql);
  const found = await read(`FROM read_parquet('${file}')`);
  expect(found.names).toEqual([...expected.names.slice(0, -1), "i_1"]);
  // What Parquet or Arrow lack: enumerations, and lists of a fixed size.
  const changed: Readonly<Record<string, string>> = { level: "VARCHAR", pair: "BIGINT[]", millis: "TIMESTAMP" };
  expect(found.types).toEqual(expected.types.map((type, at) => changed[expected.names[at] ?? ""] ?? type));
  expect(found.rows).toEqual(expected.rows);
  engine.closeSync();
  instance.closeSync();
});

it("downloads results without rows and large ones as Parquet, and says what it cannot write", async () => {
  const page = await app.open(address("SELECT 1 AS a, 'x' AS b WHERE false"));
  const instance = await DuckDBInstance.create(":memory:");
  const engine = await instance.connect();
  const answer = async (text: string) => (await engine.runAndReadAll(text)).getRowsJson();
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/0 rows, .* in/).waitFor();
  const empty = await download(page, "Parquet");
  expect(await answer(`SELECT count(*)::INTEGER, any_value(typeof(a)) FROM read_parquet('${empty}')`)).toEqual([
    [0, null],
  ]);

  await page.goto(
    `${app.url}${address("SELECT i, 'name ' || i % 10 AS name FROM range(250000) AS r(i) ORDER BY i")}&limit=1000000`,
  );
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/250,000 rows, .* in/).waitFor();
  const large = await download(page, "Parquet");
  expect(
    await answer(`SELECT count(*)::INTEGER, sum(i)::DOUBLE, count(DISTINCT name)::INTEGER, bool_and(name = 'name ' || i % 10)
      FROM read_parquet('${large}')`),
  ).toEqual([[250_000, 31_249_875_000, 10, true]]);

  await page.goto(`${app.url}${address("SELECT union_value(a := 1) AS u")}`);
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/1 row, .* in/).waitFor();
  await page.getByRole("button", { name: "Download" }).click();
  await page.getByRole("menuitem", { name: "Parquet" }).click();
  await page.getByText(/The column u has the type .*, which Parquet lacks. Cast it/).waitFor();
  engine.closeSync();
  instance.closeSync();
});

it("downloads what is there as CSV, without formulas, and the whole as Arrow", async () => {
  const page = await app.open(
    address(`SELECT 1 AS a, 'x,"y"' AS b, '=1+1' AS c, TIMESTAMP_NS '2026-01-02 03:04:05.123456789' AS d`),
  );
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("grid").waitFor();
  const read = async (name: string): Promise<Buffer> => await readFile(await download(page, name));
  expect((await read("CSV")).toString()).toBe(`a,b,c,d\r\n1,"x,""y""",'=1+1,2026-01-02T03:04:05.123456789Z\r\n`);
  const arrow = tableFromIPC(await read("Arrow stream"));
  expect([arrow.numRows, arrow.getChild("b")?.get(0)]).toEqual([1, 'x,"y"']);
});

it("runs in a browser that keeps nothing", async () => {
  const page = await app.open("/");
  await page.addInitScript(
    `for (const name of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });
    }`,
  );
  await page.goto(`${app.url}${address("SELECT 42 AS answer")}`);
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/1 row, .* in/).waitFor();
  expect(await page.getByRole("grid").getByText("42").count()).toBe(1);
});
