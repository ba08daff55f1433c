/** Pages whose answers come late, in another order, or not at all, and what people do until then. */
import type { Locator, Page, Route } from "playwright-core";
import { expect, it } from "vitest";

import { callApi } from "../helpers/web/admin-app.js";
import { useApp } from "../helpers/web/app.js";

const app = useApp({ traces: 60 });

interface Held {
  /** Requests that were held. */
  readonly count: () => number;
  /** Lets them and all further ones go. */
  readonly release: () => void;
}

/** Keeps the requests of a kind from the server. */
async function hold(page: Page, pattern: string, isHeld: (route: Route) => boolean = () => true): Promise<Held> {
  let release = (): void => undefined;
  let count = 0;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(pattern, async (route) => {
    if (isHeld(route)) {
      count++;
      await held;
    }
    await route.fallback();
  });
  return { count: () => count, release };
}

/** What a test does to an element without waiting. */
interface Clickable {
  readonly click: () => void;
}

/** Clicks the first elements, before the page does anything about it. */
const clickAtOnce = (part: Locator, most: number): Promise<void> =>
  part.evaluateAll(
    (elements, count) => elements.slice(0, count).forEach((element) => (element as unknown as Clickable).click()),
    most,
  );

const isChange = (route: Route): boolean => route.request().method() !== "GET";
const panelOf = (page: Page, name: string) => page.getByRole("complementary", { name });

it.each([
  ["/admin/groups", "Filter groups"],
  ["/screens", "Find a screen"],
  ["/metrics", "Find a metric"],
])("keeps the caret where somebody types in %s", async (path, label) => {
  const page = await app.open(path);
  const field = page.getByLabel(label);
  await field.pressSequentially("acde", { delay: 20 });
  for (let key = 0; key < 3; key++) {
    await field.press("ArrowLeft");
  }
  await field.pressSequentially("XYZ", { delay: 20 });
  expect(await field.inputValue()).toBe("aXYZcde");
  await page.waitForURL(/aXYZcde/);
  // What comes from the address alone is taken.
  await page.goto(`${app.url}${path}?q=other&find=other`);
  expect(await field.inputValue()).toBe("other");
});

it("keeps what was done to a table just before and after the width of a column changed", async () => {
  const page = await app.open("/processes?sort=-version&hide=service");
  const grid = page.getByRole("grid", { name: "Processes" });
  await grid.getByRole("row").nth(1).waitFor();
  await page.clock.install(); // the address learns of a width when the hand has come to rest, and no sooner
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("menuitem", { name: "All as it was" }).click();
  await page.waitForURL((url) => !url.searchParams.has("hide"));
  await page.clock.runFor(1000);
  await grid.press("+");
  await grid.press("ArrowRight");
  await grid.press("s");
  await page.waitForURL(/sort=/);
  await page.clock.runFor(1000);
  await page.waitForURL(/widths=/);
  // On a slow machine the hand has rested before the second key.
  expect([...new URL(page.url()).searchParams.keys()].toSorted()).toEqual(["sort", "widths"]);
});

it("has the widths of columns that Back and Forward come to", async () => {
  const page = await app.open("/admin/groups");
  const grid = page.getByRole("grid", { name: "Groups" });
  const head = grid.getByRole("columnheader").first();
  const width = async (): Promise<number> => (await head.boundingBox())?.width ?? 0;
  await grid.getByRole("row").nth(1).waitFor();
  await grid.press("+");
  await page.waitForURL(/widths=/);
  const first = await width();
  await grid.press("Enter");
  await page.waitForURL(/open=/);
  await grid.press("+");
  await page.waitForURL((url) => url.searchParams.get("widths")?.endsWith(`:${first + 20}`) === true);
  await page.goBack();
  await page.waitForURL((url) => !url.searchParams.has("open"));
  await expect.poll(width).toBe(first);
  await page.goForward();
  await expect.poll(width).toBe(first + 20);
});

it("keeps each of several filters and facets that are changed before the page shows the first", async () => {
  const page = await app.open("/logs");
  const exclude = page.getByRole("region", { name: "service_name" }).getByRole("button", { name: /^Exclude / });
  await exclude.nth(2).waitFor();
  await clickAtOnce(exclude, 3);
  const remove = page.getByRole("button", { name: /^Remove the filter/ });
  await remove.first().waitFor();
  expect(new URL(page.url()).searchParams.getAll("filter")).toHaveLength(3);
  await expect.poll(() => remove.count()).toBe(3);
  await clickAtOnce(remove, 2);
  await expect.poll(() => remove.count()).toBe(1);
  const facets = page.getByRole("button", { name: /^Remove the facet/ });
  await clickAtOnce(facets, 2);
  await page.waitForURL(/facet=/);
  await expect.poll(() => facets.count()).toBe(0);
});

it("hides each of several columns that are chosen before the table shows the first", async () => {
  const page = await app.open("/processes");
  const grid = page.getByRole("grid", { name: "Processes" });
  await grid.getByRole("row").nth(1).waitFor();
  const heads = grid.getByRole("columnheader");
  const shown = await heads.count();
  await page.getByRole("button", { name: "Columns" }).click();
  await clickAtOnce(page.getByRole("menuitemcheckbox", { checked: true }), 2);
  await expect.poll(() => heads.count()).toBe(shown - 2);
  expect(new URL(page.url()).searchParams.get("hide")?.split(",")).toHaveLength(2);
});

it("acts on the last row that is left when there were more below it", async () => {
  const page = await app.open("/logs");
  const grid = page.getByRole("grid").first();
  await grid.getByText("checkout").first().waitFor();
  await grid.press("End");
  const search = page.getByRole("searchbox", { name: "Search in messages" });
  await search.fill("listener lost");
  await search.press("Enter");
  await page.waitForURL(/listener/);
  await page.locator("[aria-busy='true']").first().waitFor({ state: "detached" });
  const active = await grid.getAttribute("aria-activedescendant");
  await expect.poll(() => page.locator(`[id="${active}"]`).count()).toBe(1);
});

it("asks again for the calls of a map that could not be read", async () => {
  const page = await app.open("/start", { allow: /503/ });
  let fails = true;
  await page.route("**/api/query", async (route) => {
    await (fails && route.request().postData()?.includes("caller") === true
      ? route.fulfill({ status: 503, json: { code: "UNAVAILABLE", message: "busy" } })
      : route.fallback());
  });
  await page.goto(`${app.url}/services?view=map`);
  const alert = page.getByRole("alert").filter({ hasText: "The services could not be read" });
  await alert.waitFor();
  fails = false;
  await alert.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("link", { name: /^checkout calls payment: / }).waitFor();
  expect(await alert.count()).toBe(0);
});

it("opens nothing on a page, or in place of a form, to which somebody went meanwhile", async () => {
  const page = await app.open("/admin/groups?new=1");
  const held = await hold(page, "**/api/groups", isChange);
  await page.getByLabel("Name", { exact: true }).fill("left-behind");
  await page.getByRole("button", { name: "Make the group" }).click();
  await expect.poll(held.count).toBe(1);
  await page.getByRole("gridcell", { name: "admins", exact: true }).click();
  const typed = panelOf(page, "admins").getByLabel("Add somebody");
  await typed.fill("half typed");
  held.release();
  await page.getByRole("gridcell", { name: "left-behind", exact: true }).waitFor();
  expect(await typed.inputValue()).toBe("half typed");
  expect(page.url()).toContain("open=admins");
});

it("closes no other panel when something was deleted", async () => {
  const page = await app.open("/admin/groups");
  expect(await callApi(page, "POST", "api/groups", { name: "going" })).toMatchObject({ status: 201 });
  await page.goto(`${app.url}/admin/groups?open=going`);
  await panelOf(page, "going").getByRole("button", { name: "Delete…" }).click();
  const held = await hold(page, "**/api/groups/going", isChange);
  await page.getByRole("button", { name: "Delete “going”" }).click();
  await expect.poll(held.count).toBe(1);
  await page.keyboard.press("Escape");
  await page.getByRole("gridcell", { name: "admins", exact: true }).click();
  const typed = panelOf(page, "admins").getByLabel("Add somebody");
  await typed.fill("half typed");
  held.release();
  await page.getByRole("gridcell", { name: "going", exact: true }).waitFor({ state: "detached" });
  expect(await typed.inputValue()).toBe("half typed");
});

it("does what was confirmed once, though its dialog was left and opened again", async () => {
  const page = await app.open("/admin/erasure?new=1");
  const held = await hold(page, "**/api/erasures", isChange);
  const form = page.getByRole("form", { name: "Erase rows" });
  await form.getByLabel("Audience").fill("public");
  await form.getByLabel("Service", { exact: true }).fill("nobody-at-all");
  await form.getByRole("button", { name: "Erase…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Erase them for good" }).click();
  await expect.poll(held.count).toBe(1);
  await dialog.getByRole("button", { name: "Close" }).click();
  expect(await form.getByRole("button", { name: "One moment…" }).isDisabled()).toBe(true);
  held.release();
  await panelOf(page, "Erasure").waitFor();
  expect((await callApi(page, "GET", "api/erasures")).body).toHaveLength(1);
});

it("keeps what is typed into a field while what it held before is sent", async () => {
  const page = await app.open("/admin/groups?open=admins");
  const panel = panelOf(page, "admins");
  const field = panel.getByLabel("Add somebody");
  const held = await hold(page, "**/api/groups/admins/members", isChange);
  await field.fill("first@example.com");
  await field.press("Enter");
  await expect.poll(held.count).toBe(1);
  await field.fill("second@example.com");
  held.release();
  await panel.getByRole("list", { name: "Members of admins" }).getByText("user:first@example.com").waitFor();
  expect(await field.inputValue()).toBe("second@example.com");
});

it("names what it is going to remove, whatever the form says by then", async () => {
  const page = await app.open("/admin/retention?new=1");
  const form = page.getByRole("form", { name: "Add an override" });
  const held = await hold(page, "**/api/retention/default");
  await form.getByLabel("Audience").fill("team-asked");
  await form.getByLabel("Days").fill("1");
  await form.getByRole("button", { name: "Save" }).click();
  await expect.poll(held.count).toBeGreaterThan(0);
  await form.getByLabel("Audience").fill("team-typed");
  held.release();
  await page
    .getByRole("dialog")
    .getByText(/^Keep .* of team-\w+ for/)
    .waitFor();
  expect(await page.getByRole("dialog").getByRole("heading").textContent()).toContain("of team-asked for");
});

it("gives no verdict on a text that was typed after it was asked for", async () => {
  const page = await app.open("/admin/query-denials");
  await callApi(page, "POST", "api/query-denials", { match_expr: "contains(sql, 'CROSS')", reason: "too much" });
  await page.reload();
  const text = page.getByLabel("Text of the query");
  const test = page.getByRole("button", { name: "Test it" });
  const held = await hold(page, "**/api/query-denials/**", isChange);
  await text.fill("SELECT 1");
  await test.click();
  await expect.poll(held.count).toBeGreaterThan(0);
  await text.fill("SELECT 1 CROSS JOIN b");
  held.release();
  await test.waitFor();
  expect(await page.getByText(/it would (?:run|be denied)/).count()).toBe(0);
  await test.click();
  await page.getByText("Yes, it would be denied").waitFor();
});

it("says of members that they may be old", async () => {
  const page = await app.open("/admin/groups?open=admins", { allow: /Failed to load resource/ });
  const panel = panelOf(page, "admins");
  const list = panel.getByRole("list", { name: "Members of admins" });
  await list.getByText("user:dev@localhost").waitFor();
  await page.route("**/api/groups/admins/members*", async (route) => {
    await (isChange(route)
      ? route.fallback()
      : route.fulfill({ status: 500, json: { code: "INTERNAL", message: "no" } }));
  });
  await panel.getByLabel("Add somebody").fill("new@example.com");
  await panel.getByRole("button", { name: "Add", exact: true }).click();
  await panel.getByRole("alert").getByText("The members could not be read anew").waitFor();
  expect(await list.getByText("user:dev@localhost").isVisible()).toBe(true);
});

it("makes a screen once, keeps its name until it is there, and takes nobody to it who has left", async () => {
  const page = await app.open("/screens", { allow: /503/ });
  let refuses = true;
  await page.route("**/api/screens/slow", async (route) => {
    await (refuses ? route.fulfill({ status: 503, json: { code: "UNAVAILABLE", message: "busy" } }) : route.fallback());
  });
  await page.getByRole("button", { name: "New screen" }).click();
  const dialog = page.getByRole("dialog", { name: "New screen" });
  await dialog.getByLabel("Name").fill("slow");
  await dialog.getByRole("button", { name: "Make it" }).click();
  await dialog.getByRole("alert").getByText("busy", { exact: true }).waitFor();
  expect(await dialog.getByLabel("Name").inputValue()).toBe("slow");
  refuses = false;
  const held = await hold(page, "**/api/screens/slow", isChange);
  await dialog.getByRole("button", { name: "Make it" }).click();
  await expect.poll(held.count).toBe(1);
  expect(await dialog.getByRole("button", { name: "One moment…" }).isDisabled()).toBe(true);
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("link", { name: "Processes" }).click();
  await page.getByRole("grid", { name: "Processes" }).waitFor();
  const made = page.waitForResponse((response) => response.url().endsWith("/api/screens/slow"));
  held.release();
  expect((await made).status()).toBe(201);
  await page.waitForTimeout(500);
  expect(new URL(page.url()).pathname).toBe("/processes");
});

/** A screen with one cell of text, and a second version of it. */
async function screenOfTwo(page: Page, name: string): Promise<void> {
  for (const version of [0, 1]) {
    const config = { format: 1, cells: [{ kind: "markdown", id: "a", text: `# Version ${version + 1}` }] };
    await callApi(page, "PUT", `api/screens/${name}`, { config, version });
  }
  await page.goto(`${app.url}/screen/${name}`);
}

it("asks before a version of a screen takes the place of what was typed while it came", async () => {
  const page = await app.open("/screens");
  await screenOfTwo(page, "restored");
  await page.getByRole("button", { name: "Versions" }).click();
  const held = await hold(page, "**/api/screens/restored/versions/1");
  await page.getByRole("button", { name: /^Edit version/ }).click();
  await expect.poll(held.count).toBe(1);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const text = page.getByRole("textbox", { name: "Markdown" });
  await text.fill("# Mine");
  const asked = page.waitForEvent("dialog").then((dialog) => dialog.dismiss());
  held.release();
  await asked;
  expect(await text.inputValue()).toBe("# Mine");
});

it("deletes a screen once, and says so where somebody waits for it", async () => {
  const page = await app.open("/screens", { allow: /503/ });
  await screenOfTwo(page, "deleted");
  await page.getByRole("button", { name: "Delete screen" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete deleted?" });
  const held = await hold(page, "**/api/screens/deleted?*", isChange);
  await dialog.getByRole("button", { name: "Delete with all versions" }).click();
  await expect.poll(held.count).toBe(1);
  expect(await dialog.getByRole("button", { name: "One moment…" }).isDisabled()).toBe(true);
  held.release();
  await page.waitForURL("**/screens**");
});

it("runs a query that somebody starts by a double click", async () => {
  const page = await app.open("/sql?sql=SELECT+42+AS+answer");
  await page.getByRole("button", { name: "Run" }).dblclick();
  await page.getByRole("gridcell", { name: "42" }).or(page.getByText("Cancelled")).first().waitFor();
  expect(await page.getByText("Cancelled").count()).toBe(0);
});

it("takes back the formatting alone, and leaves what was typed just before", async () => {
  const page = await app.open("/sql?sql=select+1");
  const editor = page.getByRole("textbox", { name: "SQL" });
  await page.getByRole("button", { name: "Format the text" }).click(); // loads what formats
  await expect.poll(() => editor.textContent()).toContain("SELECT");
  await editor.press("Control+End");
  await page.keyboard.type(", 2 as b");
  await page.getByRole("button", { name: "Format the text" }).click();
  await expect.poll(() => editor.textContent()).toContain("AS b");
  await editor.press("Control+z");
  expect(await editor.textContent()).toContain(", 2 as b");
});

it("does not say that a query found nothing before it has answered, nor when it failed", async () => {
  const page = await app.open("/metrics", { allow: /500/ });
  await page.getByRole("grid", { name: "Metrics" }).waitFor();
  const empty = page.getByText("No metric is called that").locator("..");
  await page.getByLabel("Find a metric").fill("nothing at all");
  await empty.and(page.locator("[aria-busy='false']")).waitFor();
  let fails = false;
  await page.route("**/api/query", async (route) => {
    await (fails
      ? route.fulfill({ status: 500, json: { code: "INTERNAL", message: "no", request_id: null } })
      : route.fallback());
  });
  const held = await hold(page, "**/api/query");
  await page.getByLabel("Find a metric").fill("nothing at all, either");
  await expect.poll(held.count).toBeGreaterThan(0);
  await empty.and(page.locator("[aria-busy='true']")).waitFor();
  fails = true;
  held.release();
  await page.getByRole("alert").getByText("The metrics could not be read").waitFor();
  expect(await empty.count()).toBe(0);
});

it("says in a cell of a screen that its query failed, and not that there are no rows", async () => {
  const page = await app.open("/screens", { allow: /400/ });
  const sql = "SELECT CASE WHEN $n = 1 THEN error('broken') ELSE 'x' END AS a FROM range(1) WHERE $n = 1";
  const cells = [
    { kind: "variable", id: "v", name: "n", label: "N", type: "number", value: "0", sql: "" },
    { kind: "table", id: "t", title: "Failing", sql },
  ];
  await callApi(page, "PUT", "api/screens/failing", { config: { format: 1, cells }, version: 0 });
  await page.goto(`${app.url}/screen/failing`);
  const cell = page.getByRole("region", { name: "Failing" });
  await cell.getByText("No rows").waitFor();
  await page.getByLabel("N", { exact: true }).fill("1");
  await page.getByLabel("N", { exact: true }).press("Enter");
  await cell.getByRole("alert").waitFor();
  expect(await cell.getByText("No rows").count()).toBe(0);
});

it.each([
  ["/logs", "The logs could not be read"],
  ["/logs?view=patterns", "The patterns could not be counted"],
  ["/traces", "The traces could not be read"],
  ["/metrics", "The metrics could not be read"],
  ["/services", "The services could not be read"],
])("leaves the rows of %s below the error, which says its request id once", async (path, title) => {
  const page = await app.open(path, { allow: /500/ });
  await page.getByRole("grid").waitFor();
  const id = "0f3c5a52-8f7e-4d0a-9b58-0c7f55b6a001";
  await page.route("**/api/query", (route) =>
    route.fulfill({
      status: 500,
      json: { code: "INTERNAL", message: `internal error; request id ${id}`, request_id: id },
    }),
  );
  await page.getByRole("button", { name: "Refresh", exact: true }).click();
  const alert = page.getByRole("alert").filter({ hasText: title });
  await alert.waitFor();
  expect((await alert.innerText()).split(id)).toHaveLength(2);
  expect(await page.getByRole("grid").isVisible()).toBe(true);
});

it.each([
  ["a trace", "treegrid", ([id = ""]: readonly string[]) => `/traces/${id}`],
  ["two traces", "grid", ([a = "", b = ""]: readonly string[]) => `/traces/compare?a=${a}&b=${b}`],
] as const)(
  "leaves %s below the error, as somebody left it, until it can be read again",
  async (_, role, addressOf) => {
    const page = await app.open(addressOf(app.shop.traceIds), { allow: /500/ });
    const refresh = async (): Promise<void> => {
      await page.keyboard.press("Control+k");
      await page.keyboard.type("Refresh");
      await page.keyboard.press("Enter");
    };
    const rows = page.getByRole(role).getByRole("row");
    await rows.nth(1).waitFor();
    await page.getByRole(role).press("End");
    const active = await page.getByRole(role).getAttribute("aria-activedescendant");
    await page.getByRole(role).evaluate((element) => element.setAttribute("data-kept", ""));
    await page.route("**/api/query", (route) =>
      route.fulfill({ status: 500, json: { code: "INTERNAL", message: "no", request_id: null } }),
    );
    await refresh();
    const alert = page.getByRole("alert").filter({ hasText: "could not be read" });
    await alert.waitFor();
    expect(await rows.nth(1).isVisible()).toBe(true);
    await page.unroute("**/api/query");
    await refresh();
    await alert.waitFor({ state: "detached" });
    const kept = page.locator("[data-kept]");
    await expect.poll(() => kept.getAttribute("aria-activedescendant")).toBe(active);
  },
);

it("shows no figures of another service below the name of this one", async () => {
  const page = await app.open("/services/checkout");
  const callers = page.getByRole("grid", { name: "Called by" });
  await callers.getByText("gateway").waitFor();
  await page.getByRole("term").getByText("Rate").waitFor();
  const held = await hold(page, "**/api/query");
  await callers.press("Enter");
  await page.getByRole("heading", { name: "gateway", level: 2 }).waitFor();
  expect(await page.getByRole("term").getByText("Rate").count()).toBe(0);
  held.release();
  await page.getByRole("term").getByText("Rate").waitFor();
});

it("dims what was logged around another record", async () => {
  const page = await app.open("/logs?panel=around");
  const grid = page.getByRole("grid").first();
  await grid.getByText("checkout").first().waitFor();
  await grid.press("Enter");
  const panel = panelOf(page, "Log record");
  const lines = panel.locator("[aria-busy]");
  await lines.and(page.locator("[aria-busy='false']")).first().waitFor();
  const held = await hold(page, "**/api/query");
  await grid.press("End");
  await expect.poll(held.count).toBeGreaterThan(0);
  await lines.and(page.locator("[aria-busy='true']")).first().waitFor();
  held.release();
  await lines.and(page.locator("[aria-busy='false']")).first().waitFor();
});

it("says why somebody is not logged out", async () => {
  const page = await app.open("/sql", { allow: /503/ });
  await page.route("**/auth/logout", (route) =>
    route.fulfill({ status: 503, json: { code: "UNAVAILABLE", message: "the server is stopping" } }),
  );
  await page.getByRole("button", { name: /settings and logout/ }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await page.getByText("the server is stopping", { exact: true }).waitFor();
  expect(await page.getByText("ApiError").count()).toBe(0);
});

it("says that the live keys of audiences could not be counted", async () => {
  const page = await app.open("/processes", { allow: /500/ });
  await page.route("**/api/ingestion-api-keys*", (route) =>
    route.fulfill({ status: 500, json: { code: "INTERNAL", message: "no" } }),
  );
  await page.goto(`${app.url}/audiences`);
  await page.getByRole("alert").getByText("The live keys could not be counted").waitFor();
  await expect.poll(() => page.getByRole("grid", { name: "Audiences" }).isVisible()).toBe(true);
});

it.each([
  ["api/query", 413, "/logs", "takes no request as large as this one"],
  ["api/query", 429, "/logs", "Wait a moment, then try again."],
  ["api/groups?**", 502, "/admin/groups", "The service may be starting or down"],
  ["auth/me", 200, "/logs", "Something else than the service answered."],
] as const)(
  "says of a page of a proxy in place of %s that the service did not answer (%i)",
  async (route, status, path, said) => {
    const page = await app.open("/start", { allow: /413|429|502|Something else/ });
    await page.route(`**/${route}`, (answer) =>
      answer.fulfill({ status, contentType: "text/html", body: "<html><h1>A proxy</h1></html>" }),
    );
    await page.goto(`${app.url}${path}`);
    const alert = page.getByRole("alert").filter({ hasText: said }).first();
    await alert.waitFor();
    expect(await alert.innerText()).toContain("not the service's, but that of something before it, such as a proxy");
  },
);

it.each([
  ["api/groups?**", "/admin/groups", "The groups could not be read"],
  ["auth/me", "/admin/groups", "Nobody can be logged in now"],
  ["auth/refresh", "/admin/groups", "The groups could not be read"],
])("says that no answer to %s came, and asks again", async (route, path, title) => {
  const page = await app.open("/start", { allow: /The server has not answered for 20 seconds|401/ });
  const held = await hold(page, `**/${route}`);
  if (route === "auth/refresh") {
    // The session has ended, once.
    await page.route("**/api/groups?**", (each) => each.fulfill({ status: 401, body: "{}" }), { times: 1 });
  }
  const opened = Date.now();
  await page.clock.install({ time: opened });
  await page.goto(`${app.url}${path}`);
  await expect.poll(held.count).toBe(1);
  // The page's clock goes on by itself until here: how long the page took to ask does not count.
  await page.clock.pauseAt(opened + 19_000);
  expect(await page.getByRole("alert").count()).toBe(0);
  await page.clock.runFor(20_000);
  const alert = page.getByRole("alert").filter({ hasText: title });
  await alert.getByText("The server has not answered for 20 seconds.").waitFor();
  expect(held.count()).toBe(1);
  await page.clock.resume();
  held.release();
  await alert.getByRole("button", { name: "Try again" }).click();
  await alert.waitFor({ state: "detached" });
  await page.getByRole("gridcell", { name: "admins", exact: true }).waitFor();
});
