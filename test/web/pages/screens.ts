/** Screens: made, shown, edited and imported; by people who may and people who may not. */
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { makeScreen, putScreen } from "../../helpers/web/screens.js";
import { shopCells } from "../../helpers/web/shop-cells.js";

const app = sharedApp();

const cells = shopCells(
  "# Shop <script>window.broken = 1</script>\n\n[odd](javascript:window.broken=1) ![](http://elsewhere.test/x.png)",
);

it("begins with a new screen that shows something", async () => {
  const page = await app.open("/screens");
  await page.getByText("There are no screens yet").waitFor();
  await expectAccessible(page);
  await makeScreen(page, "first look");
  await page.getByRole("region", { name: "Log records" }).getByRole("img").first().waitFor();
  await expectAccessible(page);
  await page.goto(`${app.url}/screens`);
  await page.getByRole("link", { name: "first look" }).click();
  await page.getByRole("heading", { name: "first look", level: 2 }).waitFor();
  expect(await page.getByRole("region", { name: "Errors" }).count()).toBe(1);
});

it.each(["light", "dark"] as const)("shows text, charts, tables, logs and variables in the %s theme", async (theme) => {
  const page = await app.open("/screens", { theme, allow: /409/ });
  expect([200, 201, 409]).toContain(await putScreen(page, "shop", { config: { format: 1, cells }, version: 0 }));
  await page.goto(`${app.url}/screen/shop`);
  const services = page.getByRole("region", { name: "Services" });
  await services.getByText("checkout").waitFor();
  await page.getByText("window.broken = 1").waitFor();
  expect(await page.evaluate(() => "broken" in globalThis)).toBe(false);
  expect(await page.locator("a[href^='javascript']").count()).toBe(0);
  await page.getByRole("combobox", { name: "Service" }).click();
  await page.getByRole("option", { name: "payment" }).click();
  await page.waitForURL("**var-service=payment**");
  await services.getByText("checkout").waitFor({ state: "detached" });
  await services.getByText("payment").waitFor();
  await expectAccessible(page);
  await screenshot(page, `screen-${theme}`);
});

it("says which cells wait for a newer answer", async () => {
  const page = await app.open("/screens", { allow: /409/ });
  expect([200, 201, 409]).toContain(await putScreen(page, "shop", { config: { format: 1, cells }, version: 0 }));
  await page.goto(`${app.url}/screen/shop`);
  const services = page.getByRole("region", { name: "Services" });
  const busy = page.locator("[aria-busy='true']");
  await services.getByText("checkout").waitFor();
  await busy.first().waitFor({ state: "detached" });
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/api/query", async (route) => {
    await held;
    await route.continue();
  });
  await page.getByRole("combobox", { name: "Service" }).click();
  await page.getByRole("option", { name: "payment" }).click();
  await services.locator(busy).waitFor();
  await page.locator("figure").and(busy).first().waitFor();
  release();
  await busy.first().waitFor({ state: "detached" });
  expect(await services.getByText("checkout").count()).toBe(0);
});

it("goes on at the cells when somebody begins to edit below them, and in the page afterwards", async () => {
  const page = await app.open("/screens");
  const texts = Array.from({ length: 40 }, (_, at) => ({ kind: "markdown", id: `t${at}`, text: `# Text ${at}` }));
  await putScreen(page, "long", { config: { format: 1, cells: texts }, version: 0 });
  await page.goto(`${app.url}/screen/long`);
  await page.getByRole("heading", { name: "Text 39" }).scrollIntoViewIfNeeded();
  await page.getByRole("button", { name: "Edit", exact: true }).press("Enter");
  await page.getByRole("region", { name: "Text: Text 0", exact: true }).waitFor();
  const isInView =
    "document.querySelector('[aria-label=\"Text: Text 0\"]').getBoundingClientRect().top < innerHeight / 2";
  await expect.poll(() => page.evaluate(isInView)).toBe(true);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  expect(await page.evaluate("document.activeElement.closest('section')?.ariaLabel")).toBe("Text: Text 0");
  await page.getByRole("button", { name: "Close", exact: true }).press("Enter");
  await page.getByRole("button", { name: "Edit", exact: true }).waitFor();
  expect(await page.evaluate("document.activeElement === document.body")).toBe(false);
});

it("shows a cell below its fields while it is edited, and runs what is typed when that rests, or at once", async () => {
  const page = await app.open("/screens");
  const tables = ["first", "second"].map((id) => ({ kind: "table", id, title: id, sql: "SELECT 1 AS n" }));
  expect(await putScreen(page, "typed", { config: { format: 1, cells: tables }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/typed`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const first = page.getByRole("region", { name: "Table: first" });
  await first.getByRole("gridcell", { name: "1" }).waitFor();
  const asked: string[] = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/api/query")) {
      asked.push(request.postData() ?? "");
    }
  });
  const sql = first.getByRole("textbox", { name: "SQL" });
  await sql.fill("");
  await sql.pressSequentially("SELECT 'typed' AS word", { delay: 20 });
  await first.getByRole("gridcell", { name: "typed" }).waitFor();
  expect(asked.filter((body) => body.includes("typed"))).toHaveLength(1);
  await page.clock.install(); // nothing rests any more
  await sql.press("End");
  await sql.pressSequentially(", 42 AS n");
  expect(await first.getByRole("gridcell", { name: "42" }).count()).toBe(0);
  await sql.press("Control+Enter");
  await first.getByRole("gridcell", { name: "42" }).waitFor();
});

it("keeps the focus of who moves and removes cells by keyboard", async () => {
  const page = await app.open("/screens");
  const texts = ["one", "two"].map((text) => ({ kind: "markdown", id: text, text }));
  expect(await putScreen(page, "moved", { config: { format: 1, cells: texts }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/moved`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const focused = (): Promise<string> =>
    page.evaluate("`${document.activeElement.ariaLabel} of ${document.activeElement.closest('section')?.ariaLabel}`");
  const down = page.getByRole("region", { name: "Text: one" }).getByRole("button", { name: "Move down" });
  await down.press("Enter");
  await page.getByRole("region", { name: "Text: two" }).getByRole("button", { name: "Move down" }).waitFor();
  expect(await down.getAttribute("aria-disabled")).toBe("true");
  expect(await focused()).toBe("Move down of Text: one");
  await page.keyboard.press("Shift+Tab");
  expect(await focused()).toBe("Move up of Text: one");
  const remove = (name: string) => page.getByRole("region", { name }).getByRole("button", { name: "Remove cell" });
  await remove("Text: two").press("Enter");
  await expect.poll(focused).toBe("Text: one of Text: one");
  await remove("Text: one").press("Enter");
  await expect.poll(focused).toBe("Cells of undefined");
});

it("keeps a cell in view that moves past tall ones", async () => {
  const page = await app.open("/screens");
  const texts = ["moved", "a", "b"].map((id) => ({ kind: "markdown", id, text: `${id}${"\n\nline".repeat(40)}` }));
  expect(await putScreen(page, "tall", { config: { format: 1, cells: texts }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/tall`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const moved = page.getByRole("region", { name: /^Text: moved/ });
  const isSeen = `(() => {
    const { left, right, top, bottom } = document.activeElement.getBoundingClientRect();
    return document.activeElement.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
  })()`;
  await moved.getByRole("button", { name: "Move down" }).focus();
  await page.keyboard.press("Enter");
  expect(await page.evaluate(isSeen)).toBe(true);
  await page.keyboard.press("Enter");
  expect(await page.evaluate(isSeen)).toBe(true);
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  expect(await page.evaluate(isSeen)).toBe(true);
});

it("tells fatal from error in a chart of levels", async () => {
  const page = await app.open("/screens");
  const sql =
    "SELECT date_bin(INTERVAL 5 MINUTE, now()::TIMESTAMP) AS time, l AS level_name, 1 AS n FROM (VALUES ('fatal'), ('error')) v(l)";
  const chart = { kind: "chart", id: "c", title: "By level", sql, look: "bars", unit: "" };
  await putScreen(page, "levels", { config: { format: 1, cells: [chart] }, version: 0 });
  for (const theme of ["light", "dark"] as const) {
    const themed = await app.open("/screen/levels", { theme });
    const region = themed.getByRole("region", { name: "By level" });
    await region.getByRole("button", { name: "error" }).waitFor();
    const colours = await region
      .getByRole("button", { name: /^(?:fatal|error)$/ })
      .locator("span")
      .evaluateAll((parts) => parts.map((part) => part.computedStyleMap().get("background-color")?.toString() ?? ""));
    expect(new Set(colours.filter((colour) => colour !== "rgba(0, 0, 0, 0)")).size).toBe(2);
  }
});

it("lets a query come to its end that takes longer than the time between two refreshes", async () => {
  const page = await app.open("/screens");
  const table = { kind: "table", id: "a", title: "Slow", sql: "SELECT 'here it is' AS word" };
  expect(await putScreen(page, "slow", { config: { format: 1, cells: [table] }, version: 0 })).toBe(201);
  await page.route("**/api/query", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 7000));
    await route.continue().catch(() => undefined); // it was given up
  });
  await page.goto(`${app.url}/screen/slow?refresh=5s`);
  const cell = page.getByRole("region", { name: "Slow" });
  await cell.getByText("here it is").waitFor({ timeout: 30_000 });
  // It is refreshed afterwards.
  await cell.locator("[aria-busy='true']").waitFor();
  expect(await cell.getByText("here it is").count()).toBe(1);
});

it("is edited and saved, and tells of a variable that there is not", async () => {
  const page = await app.open("/screens", { as: "guest" });
  await makeScreen(page, "mine");
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("region", { name: /^Log:/ }).getByLabel("Condition").fill("service_name = $nowhere");
  await page.getByText("There is no variable $nowhere").waitFor();
  await page.getByRole("region", { name: /^Log:/ }).getByLabel("Condition").fill("service_name = 'payment'");
  await page.getByRole("button", { name: "Add a cell" }).click();
  await page.getByRole("menuitem", { name: "Table" }).click();
  await expectAccessible(page);
  await screenshot(page, "screen-edit");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("version 2 by guest@localhost").waitFor();
  await page.reload();
  await page.getByRole("region", { name: "Services" }).waitFor();
  await page.getByRole("button", { name: "Versions" }).click();
  const versions = page.getByRole("complementary", { name: "Versions" }).getByRole("listitem");
  await versions.filter({ hasText: "the present one" }).getByText("2", { exact: true }).waitFor();
  expect(await versions.filter({ hasText: "the present one" }).getByRole("button").count()).toBe(0);
  await expectAccessible(page);
  await screenshot(page, "screen-versions");
  await page.getByRole("button", { name: "Edit version 1" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("version 3 by guest@localhost").waitFor();
  expect(await page.getByRole("region", { name: "Services" }).count()).toBe(0);
});

it("runs a cell as it is written, whatever it begins and ends with", async () => {
  const page = await app.open("/screens", { allow: /400/ });
  const written = {
    Commented: "SELECT 'kept' AS word; -- the end",
    Explained: "-- why\nEXPLAIN ANALYZE SELECT count(*) FROM log_entries;",
    Described: "DESCRIBE log_entries",
    Listed: "SHOW TABLES",
    Wrong: "SELECT time\nFROM log_entries\nWHERE no_such_column = 1",
    Broken: "SELECT time\nFROM log_entries\nWHERE level = = 1",
  };
  const tables = Object.entries(written).map(([title, sql]) => ({ kind: "table", id: title, title, sql }));
  const log = { kind: "log", id: "log", title: "Logged", where: "level_name = 'error'\nAND service = = 'a'" };
  expect(await putScreen(page, "written", { config: { format: 1, cells: [...tables, log] }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/written`);
  const cell = (title: string) => page.getByRole("region", { name: title });
  await cell("Commented").getByText("kept").waitFor();
  await cell("Explained").getByText("explain_value").waitFor();
  await cell("Described").getByText("column_name").waitFor();
  await cell("Listed").getByText("log_entries").first().waitFor();
  await cell("Wrong").getByText("LINE 3: WHERE no_such_column = 1").waitFor();
  await cell("Broken").getByText("LINE 3: WHERE level = = 1").waitFor();
  await cell("Logged").getByText("LINE 2: AND service = = 'a'").waitFor();
});

it("shows text that is too long or nests too deep as it is written, and lets it be changed", async () => {
  const page = await app.open("/screens", { allow: /Maximum call stack|levels of Markdown/ });
  const nested = (levels: number): string => `${"> ".repeat(levels)}deep`;
  const written = ["*a_ ".repeat(25_000), nested(4000), nested(150), "## Fine"];
  const config = { format: 1, cells: written.map((text, id) => ({ kind: "markdown", id: `${id}`, text })) };
  expect(await putScreen(page, "written long", { config, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/written%20long`);
  await page.getByRole("heading", { name: "Fine" }).waitFor();
  await page.getByText("Text of more than 10,000 characters is shown as it is written.").waitFor();
  await page.getByText("This text nests too deep").nth(1).waitFor();
  await expectAccessible(page);
  await screenshot(page, "screen-long");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("textbox", { name: "Markdown" }).nth(1).fill("## Mended");
  await page.getByRole("heading", { name: "Mended" }).waitFor();
});

it("lets a screen go into any of many folders", async () => {
  const page = await app.open("/screens");
  const made = await page.evaluate(async () => {
    const headers = { "content-type": "application/json" };
    const make = async (n: number) => {
      const body = JSON.stringify({ name: `folder ${String(n).padStart(3, "0")}` });
      return (await fetch("/api/folders", { method: "POST", headers, body })).status;
    };
    return await Promise.all(Array.from({ length: 120 }, (_, n) => make(n)));
  });
  expect(new Set(made)).toEqual(new Set([201]));
  expect(await putScreen(page, "filed", { config: { format: 1, cells: [] }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/filed`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("combobox", { name: "Folder" }).click();
  await page.getByRole("option", { name: "folder 119" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("in folder 119, version 2").waitFor();
});

it("offers the first of many values of a variable, says so, and takes any that is typed", async () => {
  const page = await app.open("/screens");
  const variable = { kind: "variable", id: "v", name: "n", label: "Which", type: "text", value: "" };
  const sql = "SELECT 'value ' || i FROM range(100000) r(i)";
  const table = { kind: "table", id: "t", title: "Chosen", sql: "SELECT 'chosen: ' || $n AS n" };
  const config = { format: 1, cells: [{ ...variable, sql }, table] };
  expect(await putScreen(page, "many values", { config, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/many%20values`);
  await page.getByText("500 of 10,000 or more values are offered; type any").waitFor();
  expect(await page.locator("datalist option").count()).toBe(500);
  await page.getByLabel("Which").fill("value 99999");
  await page.getByLabel("Which").press("Enter");
  await page.getByText("chosen: value 99999").waitFor();
  await expectAccessible(page);
  await screenshot(page, "screen-many-values");
});

it("saves no variables of one name", async () => {
  const page = await app.open("/screens");
  const config = { format: 1, cells: ["a", "b"].map((name) => ({ kind: "variable", id: name, name })) };
  expect(await putScreen(page, "named twice", { config, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/named%20twice`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("region", { name: "Variable: b" }).getByLabel("Name").fill("a");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("A variable cannot be called “a”: another variable has that name.").waitFor();
  expect(await page.getByText("Load the page again").count()).toBe(0);
  await screenshot(page, "screen-named-twice");
});

it("draws the first of too many series, and says so", async () => {
  const page = await app.open("/screens");
  const sql = "SELECT now() - to_seconds(i % 1000) AS time, 'series ' || i AS name, i AS n FROM range(10000) r(i)";
  const chart = { kind: "chart", id: "many", title: "Many", sql, look: "lines", unit: "" };
  expect(await putScreen(page, "many", { config: { format: 1, cells: [chart] }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/many`);
  await page.getByText("Only the first 50 of 10,000 series are drawn.").waitFor();
  expect(await page.getByRole("row").count()).toBe(51);
  await expectAccessible(page);
});

it("draws a chart over a column of dates", async () => {
  const page = await app.open("/screens");
  const sql = "SELECT time::DATE AS day, count(*) AS records FROM log_entries GROUP BY ALL";
  const chart = { kind: "chart", id: "days", title: "Days", sql, look: "bars", unit: "" };
  expect(await putScreen(page, "days", { config: { format: 1, cells: [chart] }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/days`);
  await page.getByRole("region", { name: "Days" }).getByRole("img").first().waitFor();
  await expectAccessible(page);
  await screenshot(page, "screen-days");
});

interface Canvas {
  readonly width: number;
  readonly height: number;
  getContext(kind: "2d"): { getImageData(...box: [number, number, number, number]): { data: Uint8ClampedArray } };
}

it("shows a point that has no neighbours, and the whole of long values beside the axis", async () => {
  const page = await app.open("/screens");
  const chart = (id: string, value: string) => {
    const sql = `SELECT now() - to_minutes(i) AS time, ${value} AS lasted FROM range(15) r(i)`;
    return { kind: "chart", id, title: id, look: "lines", unit: "s", sql };
  };
  // The longest labels are those of "16 min 40 s".
  const charts = [chart("Apart", "CASE WHEN i % 5 = 2 THEN 1100 END"), chart("Nothing", "0")];
  expect(await putScreen(page, "points", { config: { format: 1, cells: charts }, version: 0 })).toBe(201);
  for (const theme of ["light", "dark"] as const) {
    const themed = await app.open("/screen/points?from=now-15m&to=now", { theme });
    const plot = themed.getByRole("region", { name: "Apart" }).getByRole("img");
    await plot.locator("canvas").waitFor();
    await screenshot(themed, `screen-points-${theme}`);
    // Grid and labels are grey.
    const coloured = await plot.locator("canvas").evaluate((canvas: Canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const isColoured = (_: number, at: number): boolean => {
        const rgb = data.slice(4 * at, 4 * at + 3);
        return Math.max(...rgb) - Math.min(...rgb) > 60;
      };
      return Array.from({ length: data.length / 4 }, isColoured).filter(Boolean).length;
    });
    expect(coloured).toBeGreaterThan(20);
    const width = async (name: string): Promise<number> => {
      const host = themed.getByRole("region", { name }).getByRole("img");
      return ((await host.locator(".u-over").boundingBox())?.x ?? 0) - ((await host.boundingBox())?.x ?? 0);
    };
    expect(await width("Apart")).toBeGreaterThan(65);
    expect(await width("Nothing")).toBe(56);
  }
});

it("takes a variable of numbers that is empty for NULL", async () => {
  const page = await app.open("/screens");
  const variable = { kind: "variable", id: "v", name: "least", label: "At least", type: "number", value: "", sql: "" };
  const sql = "SELECT 'found ' || count(*) AS found FROM range(10) WHERE $least IS NULL OR range >= $least";
  const config = { format: 1, cells: [variable, { kind: "table", id: "t", title: "Numbers", sql }] };
  expect(await putScreen(page, "numbers", { config, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/numbers`);
  await page.getByText("found 10").waitFor();
  expect(await page.getByLabel("At least").inputValue()).toBe("");
  await page.getByLabel("At least").fill("7");
  await page.getByLabel("At least").press("Enter");
  await page.getByText("found 3").waitFor();
});

it("takes numbers and times that a variable offers as they are, whatever they look like", async () => {
  const page = await app.open("/screens");
  const offered = {
    large: ["number", "1500"],
    exact: ["number", "9007199254740993"],
    at: ["text", "TIMESTAMP_NS '2026-01-02 03:04:05.123456789'"],
  } as const;
  const variables = Object.entries(offered).map(([name, [type, x]]) => {
    return { kind: "variable", id: name, name, label: name, type, value: "", sql: `SELECT ${x} AS x` };
  });
  const sql = `SELECT CASE WHEN $large = 1500 AND 9007199254740993 = $exact AND ${offered.at[1]} = $at::TIMESTAMP_NS THEN 'all are the same' END AS answer`;
  const config = { format: 1, cells: [...variables, { kind: "table", id: "t", title: "Chosen", sql }] };
  expect(await putScreen(page, "exact", { config, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/exact`);
  for (const [name, looks] of [
    ["large", "1,500"],
    ["exact", "9,007,199,254,740,993"],
    ["at", /^2026-01-0\d \d\d:\d\d:05\.123$/],
  ] as const) {
    await page.getByRole("combobox", { name }).click();
    await page.getByRole("option", { name: looks }).click();
  }
  await page.getByRole("region", { name: "Chosen" }).getByText("all are the same").waitFor();
  // What an address says is the same afterwards.
  await page.reload();
  await page.getByRole("region", { name: "Chosen" }).getByText("all are the same").waitFor();
});

it("offers no editing to those who may not, and changes nothing for those who look", async () => {
  const page = await app.open("/screens", { allow: /400|403/ });
  const erasing = "SELECT * FROM deny_queries('true', 'by a screen')";
  const config = { format: 1, cells: [{ kind: "table", id: "x", title: "Trap", sql: erasing }] };
  expect(await putScreen(page, "trap", { config, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/trap`);
  await page.getByRole("region", { name: "Trap" }).getByText("changes something, so call it alone").waitFor();
  const guest = await app.open("/screen/trap", { as: "guest", allow: /400|403/ });
  await guest.getByText("version 1 by dev@localhost").waitFor();
  expect(await guest.getByRole("button", { name: "Edit" }).count()).toBe(0);
});

it("takes files, and refuses those of a newer release", async () => {
  const page = await app.open("/screens", { as: "guest" });
  const choose = async (file: object): Promise<void> => {
    const buffer = Buffer.from(JSON.stringify(file));
    await page.getByLabel("File of a screen").setInputFiles({ name: "a.json", mimeType: "application/json", buffer });
  };
  await choose({ format: 2, name: "imported", folder: null, version: 0, config: {} });
  await page.getByText("a.json has format 2, and this release reads 1").waitFor();
  await choose({ format: 1, name: "imported", folder: null, version: 4, config: { format: 1, cells } });
  await page.getByRole("heading", { name: "imported", level: 2 }).waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export as a file" }).click(),
  ]);
  expect(download.suggestedFilename()).toBe("imported.json");
  await page.getByRole("button", { name: "Delete screen" }).click();
  await page.getByRole("button", { name: "Delete with all versions" }).click();
  await page.waitForURL("**/screens**");
  await page.getByRole("link", { name: "shop" }).waitFor();
  expect(await page.getByRole("link", { name: "imported" }).count()).toBe(0);
  await expectAccessible(page);
});

it("lets no name turn the text around it", async () => {
  const page = await app.open("/screens");
  const name = "report \u202egnp.exe";
  const folder = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ name }) };
  expect(await page.evaluate(async (init) => (await fetch("/api/folders", init)).status, folder)).toBe(201);
  expect(
    await putScreen(page, encodeURIComponent(name), { config: { format: 1, cells: [] }, folder: name, version: 0 }),
  ).toBe(201);
  await page.goto(`${app.url}/screen/${encodeURIComponent(name)}`);
  expect(await page.getByText("version 1 by dev@localhost").textContent()).toMatch(/^in report gnp.exe, version 1/);
  await page.getByRole("button", { name: "Delete screen" }).click();
  expect(await page.getByRole("dialog").getByRole("heading").textContent()).toBe("Delete report gnp.exe?");
});

it("leads from a screen that there is not to those that there are", async () => {
  const page = await app.open("/screen/none", { allow: /404/ });
  await page.getByRole("heading", { name: "No screen is called “none”" }).waitFor();
  await page.getByRole("main").getByRole("link", { name: "All screens" }).click();
  await page.getByRole("heading", { name: "Screens", level: 1 }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/screens");
});

it("lines the fields of a cell up", async () => {
  const page = await app.open("/screen/shop");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const variable = page.getByRole("region", { name: /^Variable/ }).first();
  const tops = ["Name", "Label"].map(
    async (name) => (await variable.getByLabel(name, { exact: true }).boundingBox())?.y,
  );
  expect(await tops[0]).toBe(await tops[1]);
});

it("fits a narrow window", async () => {
  const page = await app.open("/screen/shop", { width: 360 });
  await page.getByRole("region", { name: "Services" }).waitFor();
  await expectAccessible(page);
  await screenshot(page, "screen-360");
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
});
