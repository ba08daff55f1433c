/** The hub and what it leads to beside keys, audiences and groups; and a guest on a server without self-service. */
import { readFile } from "node:fs/promises";
import type { Page, Route } from "playwright-core";
import { expect, it } from "vitest";

import { callApi, expectNoSideways } from "../helpers/web/admin-app.js";
import { expectAccessible, screenshot, useApp } from "../helpers/web/app.js";
import { until } from "../helpers/until.js";

const app = useApp({ traces: 20 });

const script = "<img src=x onerror=alert(1)>";
const adminOnly = [
  "/admin/analytics-keys",
  "/admin/groups",
  "/admin/audit",
  "/admin/query-denials",
  "/admin/retention",
  "/admin/erasure",
  "/admin/lake-checks",
  "/admin/data-sources",
  "/admin/export-screens",
  "/admin/import-screens",
  "/admin/maps",
];

it("shows everybody the cards that are for them", async () => {
  const cards = (page: Page) => page.getByRole("main").getByRole("link").locator("strong").allTextContents();
  const admin = await app.open("/admin");
  await admin.getByRole("heading", { name: "Application" }).waitFor();
  expect(await cards(admin)).toEqual([
    "Audiences",
    "Ingestion keys",
    "Analytics keys",
    "Groups",
    "Usage",
    "Audit",
    "Query deny list",
    "Retention",
    "Erasure",
    "Lake checks",
    "Data sources",
    "Export screens",
    "Import screens",
    "Maps",
  ]);
  const guest = await app.open("/admin", { as: "guest" });
  await guest.getByText("You are no administrator.").waitFor();
  expect(await cards(guest)).toEqual(["Audiences", "Ingestion keys", "Usage"]);
  await expectAccessible(guest);
  await screenshot(guest, "hub-guest");
});

it("tells guests whose page it is, and asks the server for nothing of it", async () => {
  const page = await app.open("/admin", { as: "guest" });
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  for (const path of adminOnly) {
    await page.goto(`${app.url}${path}`);
    await page.getByText("This page is for administrators").waitFor();
  }
  await expectAccessible(page);
  const allowed = /^\/api\/(?:config|data-sources|audience-grants\/my-audiences)$/;
  expect(asked.filter((path) => path.startsWith("/api/") && !allowed.test(path))).toEqual([]);
  await page.keyboard.press("Control+k");
  await page.getByPlaceholder("Go to a page").fill("deny list");
  await page.getByText("Nothing has these words.").waitFor();
});

it("tells a guest where keys come from when self-service is off", async () => {
  const page = await app.open("/admin/ingestion-keys", { as: "guest" });
  await page.getByText("Keys are minted by administrators here").waitFor();
  expect(await page.getByRole("button", { name: /^Mint / }).count()).toBe(0);
  await screenshot(page, "guest-no-mint");
  await page.goto(`${app.url}/audiences`);
  await page.getByText(/Keys are minted by administrators on this server/).waitFor();
  expect(await page.getByRole("button", { name: /^Mint / }).count()).toBe(0);
});

it("adds a rule, says whether it denies a text, and removes it", async () => {
  const page = await app.open("/admin/query-denials", { allow: /400/ });
  await page.getByText("No query is refused by a rule").waitFor();
  await page.getByRole("button", { name: "Add a rule" }).first().click();
  const form = page.getByRole("form", { name: "Add a rule" });
  await form.getByRole("button", { name: "Add the rule" }).click();
  await form.getByText("Must not be empty").first().waitFor();
  await form.getByLabel("Refuse when").fill("contains(sql, 'CROSS JOIN'");
  await form.getByLabel("Because").fill(script);
  await form.getByRole("button", { name: "Add the rule" }).click();
  await form.locator('[aria-invalid="true"], [role="alert"]').first().waitFor();
  await form.getByLabel("Refuse when").fill("contains(sql, 'CROSS JOIN')");
  await form.getByLabel("Try it on a query").fill("SELECT 1 CROSS JOIN b");
  await form.getByRole("button", { name: "Try it" }).click();
  await form.getByText("This query would be refused.").waitFor();
  await form.getByRole("button", { name: "Add the rule" }).click();
  await page.getByRole("complementary", { name: "Rule", exact: true }).waitFor();
  await page.getByLabel("Text of the query").fill("SELECT * FROM a CROSS JOIN b");
  await page.getByRole("button", { name: "Test it" }).click();
  await page.getByText("Yes, it would be denied").waitFor();
  await expectAccessible(page);
  await screenshot(page, "denials");
  await page.getByLabel("Text of the query").fill("SELECT 1");
  await page.getByRole("button", { name: "Test it" }).click();
  await page.getByText("No, it would run").waitFor();
  expect(await page.locator("img").count()).toBe(0);
  await page.getByRole("button", { name: "Remove…" }).click();
  await page.getByRole("button", { name: "Remove the rule" }).click();
  await page.getByText("No query is refused by a rule").waitFor();
});

it("adds, changes and deletes a data source, and says whose tokens it gets", async () => {
  const page = await app.open("/admin/data-sources", { allow: /400/ });
  await page.getByRole("gridcell", { name: "built-in", exact: true }).click();
  await page.getByText(/It stays, and is the default/).waitFor();
  await page.getByRole("button", { name: "Add a source" }).click();
  const form = page.getByRole("form", { name: "Add a data source" });
  await form.getByText("It gets the identity token of everybody who queries it").waitFor();
  await form.getByLabel("Name").fill("-");
  await form.getByLabel("Address").fill("https://example.com");
  await form.getByRole("button", { name: "Save" }).click();
  await form.getByText(/^Must be 1 to 63 letters/).waitFor();
  await form.getByLabel("Name").fill("other");
  await form.getByRole("button", { name: "Save" }).click();
  await form.getByText(/^Must (?!be 1 to)/).waitFor();
  await expect.poll(() => form.getByLabel("Address").evaluate((field) => field.matches(":focus"))).toBe(true);
  await form.getByLabel("Address").fill("grpc://127.0.0.1:1");
  await form.getByRole("button", { name: "Save" }).click();
  const change = page.getByRole("form", { name: "Change other" });
  await change.getByLabel("Address").fill("grpc://127.0.0.1:2");
  await expectAccessible(page);
  await screenshot(page, "data-source");
  await change.getByRole("button", { name: "Save" }).click();
  await page.getByRole("gridcell", { name: "grpc://127.0.0.1:2" }).waitFor();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete “other”" }).click();
  await page.getByRole("gridcell", { name: "built-in", exact: true }).waitFor();
  expect(await page.getByRole("gridcell", { name: "other", exact: true }).count()).toBe(0);
});

it.each([1440, 720])("keeps the focus where a panel opens and closes, at %i pixels", async (width) => {
  const page = await app.open("/admin/data-sources", { width, height: 450 });
  const focused = (): Promise<string> =>
    page.evaluate(
      "document.activeElement.ariaLabel ?? document.activeElement.labels?.[0]?.textContent ?? document.activeElement.textContent",
    );
  const add = page.getByRole("button", { name: "Add a source" });
  await add.press("Enter");
  await expect.poll(focused).toBe("Name");
  await page.keyboard.press("Escape");
  await expect.poll(focused).toBe(" Add a source");
  const grid = page.getByRole("grid", { name: "Data sources" });
  await grid.press("Enter");
  const panel = page.getByRole("complementary", { name: "built-in" });
  await panel.waitFor();
  // Beside the panel the rows keep it; the panel has it where it takes their place.
  expect(await focused()).toBe(width === 720 ? "built-in" : "Data sources");
  await panel.press("Escape");
  await panel.waitFor({ state: "detached" });
  expect(await focused()).toBe("Data sources");
});

it("says of a list that is longer than it reads that it is not all of it", async () => {
  const page = await app.open("/admin");
  await page.route("**/api/groups?*", async (route) => {
    const offset = Number(new URL(route.request().url()).searchParams.get("offset"));
    const rows = Array.from({ length: 500 }, (_, at) => ({
      name: `g${offset + at}`,
      created_at: "2026-01-31T12:00:00.000Z",
      created_by: "x",
    }));
    await route.fulfill({ json: rows });
  });
  await page.goto(`${app.url}/admin/groups`);
  await page.getByText("the first 20,000 groups", { exact: true }).waitFor();
  await page.getByLabel("Filter groups").fill("g19999");
  await page.getByText("1 of the first 20,000 groups").waitFor();
  expect(await page.getByRole("grid").getByText("g19999").count()).toBe(1);
});

it("shows the whole address of a data source where there is room for it", async () => {
  const page = await app.open("/admin", { width: 1440 });
  const uri = `grpc+tls://analytics.${"a-long-name.".repeat(5)}example.com:32010`;
  await callApi(page, "PUT", "api/data-sources/far", { uri, is_default: false });
  await page.goto(`${app.url}/admin/data-sources`);
  const cell = page.getByRole("gridcell", { name: uri });
  const [shown, whole] = await cell.evaluate((element) => [element.clientWidth, element.scrollWidth]);
  expect(shown).toBe(whole);
  await callApi(page, "DELETE", "api/data-sources/far");
});

it("closes a panel by one Escape while a tooltip of it is shown", async () => {
  const page = await app.open("/admin/data-sources?new=1");
  const close = page.getByRole("complementary").getByRole("button", { name: "Close" });
  await close.hover();
  await page.getByText("Close", { exact: true }).waitFor();
  await close.focus();
  await page.keyboard.press("Escape");
  await close.waitFor({ state: "detached", timeout: 5000 });
  expect(new URL(page.url()).search).toBe("");
});

it("leaves of a data source as it is what was not changed here", async () => {
  const page = await app.open("/admin");
  const uri = "grpc://127.0.0.1:1";
  await callApi(page, "PUT", "api/data-sources/shared", { uri, is_default: false });
  await page.goto(`${app.url}/admin/data-sources?open=shared`);
  const form = page.getByRole("form", { name: "Change shared" });
  await form.getByLabel("Address").fill("grpc://127.0.0.1:2");
  // Somebody else makes it the default meanwhile.
  await callApi(page, "PUT", "api/data-sources/shared", { uri, is_default: true });
  await form.getByRole("button", { name: "Save" }).click();
  await page.getByRole("gridcell", { name: "grpc://127.0.0.1:2" }).waitFor();
  expect((await callApi(page, "GET", "api/data-sources/shared")).body).toMatchObject({
    uri: "grpc://127.0.0.1:2",
    is_default: true,
  });
  expect(await form.getByRole("checkbox").isChecked()).toBe(true);
  await callApi(page, "DELETE", "api/data-sources/shared");
});

it("takes a GLB as a map, and says of other files why they are none before they are sent", async () => {
  const page = await app.open("/admin/maps?new=1");
  const form = page.getByRole("form", { name: "Add a map" });
  const file = (name: string, buffer: Buffer) => form.getByLabel("File").setInputFiles({ name, mimeType: "", buffer });
  await form.getByRole("button", { name: "Save the map" }).click();
  await form.getByText("Choose a file").waitFor();
  expect(await form.locator('[aria-invalid="true"]').count()).toBe(1);
  await file("hall.glb", Buffer.from("<script>alert(1)</script>"));
  await form.getByText("The file is no GLB: it does not begin with glTF").waitFor();
  await file("old.glb", glb(1));
  await form.getByText(/only version 2 can be shown/).waitFor();
  await file("main hall.glb", glb(2));
  expect(await form.getByLabel("Name here").inputValue()).toBe("main-hall.glb");
  await expectAccessible(page);
  await form.getByRole("button", { name: "Save the map" }).click();
  await page.getByRole("complementary", { name: "main-hall.glb" }).waitFor();
  await screenshot(page, "map");
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete “main-hall.glb”" }).click();
  await page.getByText("No map yet").waitFor();
});

it("exports screens to a file, and shows what importing it would change", async () => {
  const page = await app.open("/admin/export-screens");
  for (const name of ["Checkout", script.replace("/", "")]) {
    const put = await callApi(page, "PUT", `api/screens/${encodeURIComponent(name)}`, {
      config: { cells: [] },
      version: 0,
    });
    expect(put.status).toBe(201);
  }
  await page.reload();
  await page.getByText("2 of 2 screens chosen").waitFor();
  await expectAccessible(page);
  await screenshot(page, "export");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export" }).click(),
  ]);
  const text = await readFile(await download.path(), "utf8");
  expect(JSON.parse(text)).toMatchObject({ format: 1, screens: [{ name: expect.any(String) }, {}] });

  await page.goto(`${app.url}/admin/import-screens`);
  const file = (name: string, content: string) =>
    page.getByLabel("Files").setInputFiles({ name, mimeType: "application/json", buffer: Buffer.from(content) });
  await file("newer.json", text.replace('"format": 1', '"format": 2'));
  await page.getByText("newer.json has format 2, and this release reads 1").waitFor();
  const changed = text
    .replace('"name": "Checkout"', '"name": "Payment"')
    .replace('"cells": []', '"cells": [{ "kind": "log" }]');
  await file("screens.json", changed);
  await page.getByText("new", { exact: true }).waitFor();
  await expectAccessible(page);
  await screenshot(page, "import");
  const others = page.getByRole("checkbox", { disabled: false });
  for (let at = 0; at < (await others.count()); at++) {
    await others.nth(at).check();
  }
  await page.getByRole("button", { name: /^Import \d+ screen/ }).click();
  await page.getByText("Saved.").nth(1).waitFor();
  const { body } = await callApi(page, "GET", "api/screens/Payment");
  expect(body).toMatchObject({ name: "Payment", version: 1 });
  expect(await page.locator("img").count()).toBe(0);
});

it("imports no screen that its page would not save, and keeps no other", async () => {
  const page = await app.open("/admin/import-screens");
  const screen = (name: string, variables: readonly string[]) => ({
    name,
    folder: null,
    version: 0,
    config: { cells: variables.map((variable) => ({ kind: "variable", name: variable })) },
  });
  const content = JSON.stringify({ format: 1, screens: [screen("Twice", ["a", "a"]), screen("Once", ["a"])] });
  await page.getByLabel("Files").setInputFiles({ name: "a.json", mimeType: "", buffer: Buffer.from(content) });
  await page.getByRole("button", { name: "Import 2 screens" }).click();
  await page.getByRole("alert").getByText("A variable cannot be called “a”: another variable has that name.").waitFor();
  await page.getByText("Saved.").waitFor();
  const { body } = await callApi(page, "GET", "api/screens");
  expect(JSON.stringify(body)).toContain('"Once"');
  expect(JSON.stringify(body)).not.toContain('"Twice"');
});

it("shows what was chosen last, while what was chosen before is still compared", async () => {
  const page = await app.open("/admin/import-screens");
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/api/screens?*", async (route) => {
    await held;
    await route.continue();
  });
  const choose = (name: string): Promise<void> =>
    page.getByLabel("Files").setInputFiles({
      name: `${name}.json`,
      mimeType: "",
      buffer: Buffer.from(JSON.stringify({ format: 1, name, folder: null, version: 1, config: { cells: [] } })),
    });
  const asked = page.waitForRequest("**/api/screens?*");
  await choose("First");
  await asked;
  await choose("Second");
  release();
  await page.getByRole("checkbox", { name: /^Second/ }).waitFor();
  expect(await page.getByRole("checkbox").count()).toBe(1);
});

it("takes no other files while it imports, so that what became of each screen is seen", async () => {
  const page = await app.open("/admin/import-screens", { allow: /503/ });
  const files = page.getByLabel("Files", { exact: true });
  const content = (name: string): string =>
    JSON.stringify({ format: 1, name, folder: null, version: 1, config: { cells: [] } });
  await files.setInputFiles({ name: "a.json", mimeType: "", buffer: Buffer.from(content("Refused")) });
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/api/screens/Refused", async (route) => {
    await held;
    await route.fulfill({ status: 503, json: { code: "UNAVAILABLE", message: "busy" } });
  });
  const asked = page.waitForRequest("**/api/screens/Refused");
  await page.getByRole("button", { name: "Import 1 screen" }).click();
  await asked;
  await page.getByText("More files can be chosen when these are imported").waitFor();
  const dropped = await page.evaluateHandle<object>(
    `(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([${JSON.stringify(content("Dropped"))}], "b.json"));
      return transfer;
    })()`,
  );
  await files.dispatchEvent("drop", { dataTransfer: dropped });
  expect(await files.isDisabled()).toBe(true);
  release();
  await page.getByRole("alert").getByText("busy", { exact: true }).waitFor();
  expect(await page.getByRole("checkbox", { name: /^Dropped/ }).count()).toBe(0);
  // What became of the last is told before the import has ended: the lists of screens are read anew.
  await page.getByText("choose or drop them here").waitFor();
  await files.dispatchEvent("drop", { dataTransfer: dropped });
  await page.getByRole("checkbox", { name: /^Dropped/ }).waitFor();
});

it("says that nothing was overwritten that somebody saved since the files were compared", async () => {
  const page = await app.open("/admin/import-screens", { allow: /409/ });
  await callApi(page, "PUT", "api/screens/Race", { config: { a: 1 }, version: 0 });
  const content = JSON.stringify({ format: 1, name: "Race", folder: null, version: 1, config: { a: 2 } });
  await page.getByLabel("Files").setInputFiles({ name: "a.json", mimeType: "", buffer: Buffer.from(content) });
  const box = page.getByRole("checkbox", { name: /Race/ });
  expect(await box.isChecked()).toBe(false);
  await box.check();
  await callApi(page, "PUT", "api/screens/Race", { config: { a: 3 }, version: 1 });
  await page.getByRole("button", { name: "Import 1 screen" }).click();
  await page.getByRole("alert").getByText("Not as things are now").waitFor();
  const { body } = await callApi(page, "GET", "api/screens/Race");
  expect(body).toMatchObject({ config: { a: 3 } });
});

it("says that a list could not be read anew, and keeps what was read", async () => {
  const page = await app.open("/admin/groups", { allow: /Failed to load resource/ });
  const group = page.getByRole("gridcell", { name: "admins", exact: true });
  await group.waitFor();
  await page.context().setOffline(true);
  await page.getByRole("button", { name: "Ask again" }).click();
  const problem = page.getByRole("alert").filter({ hasText: "The groups could not be read anew" });
  await problem.waitFor({ timeout: 15_000 });
  expect(await group.isVisible()).toBe(true);
  await expectAccessible(page);
  // The browser says when there is a network again.
  await page.context().setOffline(false);
  await problem.waitFor({ state: "detached" });
});

it("shows the whole question about something with a long name", async () => {
  const page = await app.open("/admin/groups");
  const name = "a-name-that-somebody-made-from-that-of-a-cluster-a-namespace-and-a-deployment-of-it";
  expect(await callApi(page, "POST", "api/groups", { name })).toMatchObject({ status: 201 });
  await page.goto(`${app.url}/admin/groups?open=${name}`);
  await page.getByRole("button", { name: "Delete…" }).click();
  const dialog = page.getByRole("dialog");
  const around = await dialog.boundingBox();
  const button = await dialog.getByRole("button", { name: `Delete “${name}”` }).boundingBox();
  expect(button?.x).toBeGreaterThan(around?.x ?? Infinity);
  expect((button?.y ?? Infinity) + (button?.height ?? 0)).toBeLessThan((around?.y ?? 0) + (around?.height ?? 0));
  await expectAccessible(page);
});

it("says of a change whose answer is lost that it may have been made", async () => {
  const page = await app.open("/admin", { allow: /Failed to load resource/ });
  const lose = async (name: string, answer: (route: Route) => Promise<void>): Promise<void> => {
    await page.goto(`${app.url}/admin/groups?new=1`);
    const form = page.getByRole("form", { name: "Make a group" });
    await form.getByLabel("Name").fill(name);
    await page.route("**/api/groups", async (route) => {
      expect((await route.fetch()).status()).toBe(201);
      await answer(route);
    });
    await form.getByRole("button", { name: "Make the group" }).click();
    await page.getByRole("alert").filter({ hasText: "It may have been done" }).waitFor({ timeout: 15_000 });
    await expectAccessible(page);
    await page.unroute("**/api/groups");
  };
  await lose("lost-1", (route) => route.abort("connectionreset"));
  await lose("lost-2", (route) => route.fulfill({ status: 504, contentType: "text/html", body: "<h1>Timeout</h1>" }));
  const groups = (await callApi(page, "GET", "api/groups")).body as readonly { readonly name: string }[];
  expect(groups.map(({ name }) => name)).toEqual(expect.arrayContaining(["lost-1", "lost-2"]));
});

it("lists who changed what, filters it, and shows an entry in full", async () => {
  const page = await app.open("/admin/audit");
  await page.getByRole("gridcell", { name: "saved the data source" }).first().waitFor();
  await page.getByRole("combobox", { name: "What was done" }).click();
  await page.getByRole("option", { name: "deleted the map" }).click();
  await page.getByRole("gridcell", { name: "saved the data source" }).first().waitFor({ state: "detached" });
  expect(page.url()).toContain("action=map.delete");
  await page.getByRole("gridcell", { name: "main-hall.glb" }).click();
  await page.getByRole("complementary", { name: "deleted the map" }).getByText("dev@localhost").waitFor();
  await expectAccessible(page);
  await screenshot(page, "audit-entry");
});

it("shows requests, bytes and records of keys and audiences over time", async () => {
  const page = await app.open("/admin/usage");
  await until(async () => {
    const { body } = await callApi(page, "GET", "api/usage");
    return Array.isArray(body) && body.length > 0;
  }, 25_000);
  await page.reload();
  const grid = page.getByRole("grid", { name: "Usage by key" });
  await grid.getByText("development mode").waitFor();
  await page.getByRole("img", { name: "Bytes per hour by key" }).waitFor();
  await page.getByRole("combobox", { name: "Measure" }).click();
  await page.getByRole("option", { name: "Records" }).click();
  await page.getByRole("combobox", { name: "Group by" }).click();
  await page.getByRole("option", { name: "By audience" }).click();
  await page.getByRole("img", { name: "Records per hour by audience" }).waitFor();
  expect(page.url()).toContain("measure=records");
  await page.getByRole("grid", { name: "Usage by audience" }).getByText("public").first().click();
  await page.getByRole("button", { name: /show all keys and audiences/ }).click();
  await page.getByRole("combobox", { name: "Time" }).click();
  await page.getByRole("option", { name: "Last 30 days" }).click();
  await page.getByRole("img", { name: "Records per day by key" }).waitFor();
  const guest = await app.open("/admin/usage", { as: "guest" });
  await guest.getByText("No key was used in this time").waitFor();
});

it("lists the use of more keys than an answer has room for by hours or days", async () => {
  const page = await app.open("/admin", { allow: /status of 400/u });
  await page.route(/\/api\/usage\?.*step=(hour|day)/u, (route) =>
    route.fulfill({ status: 400, json: { code: "BAD_REQUEST", message: "That is more than 20000 rows." } }),
  );
  await page
    .getByRole("link", { name: /^Usage/u })
    .first()
    .click();
  const grid = page.getByRole("grid", { name: "Usage by key" });
  await grid.getByText("development mode").waitFor();
  await page.getByText("Too many keys to show when").waitFor();
  await page.unroute(/\/api\/usage\?.*step=(hour|day)/u);
  await grid.getByText("development mode").click();
  await page.getByRole("img", { name: "Bytes per hour by key" }).waitFor();
  expect(page.url()).toContain("key=");
});

it.each([
  ["dark", 1280],
  ["dark", 360],
] as const)("is accessible and fits, in the %s theme at %i pixels", async (theme, width) => {
  const page = await app.open("/admin", { theme, width });
  for (const [path, name, text] of [
    ["/admin", "hub", "Scenes in GLB files"],
    ["/admin/usage", "usage", "development mode"],
    ["/admin/audit", "audit", "deleted the map"],
    ["/admin/query-denials", "denials", "No query is refused by a rule"],
    ["/admin/data-sources?new=1", "sources", "It gets the identity token"],
    ["/admin/import-screens", "import", "Nothing is saved before"],
  ] as const) {
    await page.goto(`${app.url}${path}`);
    await page.getByRole("main").getByText(text).first().waitFor();
    await expectAccessible(page);
    await expectNoSideways(page);
    await screenshot(page, `${name}-${theme}-${width}`);
    expect(page.url()).toContain(path);
  }
});

/** The smallest file of a version. */
function glb(version: number): Buffer {
  const json = Buffer.from('{"asset":{"version":"2.0"}}'.padEnd(28));
  const head = Buffer.alloc(20);
  head.write("glTF", "latin1");
  head.writeUInt32LE(version, 4);
  head.writeUInt32LE(20 + json.length, 8);
  head.writeUInt32LE(json.length, 12);
  head.write("JSON", 16, "latin1");
  return Buffer.concat([head, json]);
}
