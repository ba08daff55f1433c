/** The shell of the web application: login, navigation, time range, theme, command palette, sessions that end. */
import type { Page } from "playwright-core";
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";

const app = sharedApp();

it("leads somebody who comes for the first time through the login to a page", async () => {
  const page = await app.openLoggedOut("/");
  await page.getByRole("button", { name: "dev@localhost" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  expect(new URL(page.url()).origin).toBe(app.url);
  await expectAccessible(page);
});

it("comes back from the login to the address that was asked for", async () => {
  const page = await app.openLoggedOut("/sql?from=now-6h&to=now&sql=SELECT+42");
  await page.getByRole("button", { name: "dev@localhost" }).click();
  await page.getByText("SELECT 42").waitFor();
  expect(await page.getByRole("button", { name: /Time range/ }).textContent()).toContain("Last 6 hours");
});

it("logs out, and stays out until somebody logs in", async () => {
  const page = await app.openLoggedOut("/sql");
  await page.getByRole("button", { name: "guest@localhost" }).click();
  await page.getByRole("button", { name: /settings and logout/ }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await page.getByRole("button", { name: "Log in" }).waitFor();
  expect(page.url()).toBe(`${app.url}/login`);
  await expectAccessible(page);
  await screenshot(page, "login");
});

it("keeps a relative time range in the address, and a chosen one over pages and reloads", async () => {
  const page = await app.open("/sql");
  await page.getByRole("button", { name: /Time range/ }).click();
  await page.getByRole("button", { name: "Last 15 minutes" }).click();
  await page.waitForURL("**/sql?from=now-15m&to=now");
  await page.reload();
  expect(await page.getByRole("button", { name: /Time range/ }).textContent()).toContain("Last 15 minutes");
  await page.goBack();
  expect(await page.getByRole("button", { name: /Time range/ }).textContent()).toContain("Last hour");
});

it("takes an address with nonsense in it", async () => {
  const page = await app.open("/sql?from=yesterdayish&to=%00&audience=a&audience=b&sort=--&widths=x:y&hide=%E0%A4%A");
  expect(await page.getByRole("button", { name: /Time range/ }).textContent()).toContain("Last hour");
  await page.goto(`${app.url}/no/such/page`);
  await page.getByText("There is no such page").waitFor();
});

it("finds pages and actions by Ctrl K", async () => {
  const page = await app.open("/sql");
  await page.getByRole("button", { name: "Run" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByPlaceholder("Go to a page").fill("dark");
  await page.getByRole("option", { name: /Dark theme/ }).waitFor();
  await page.getByPlaceholder("Go to a page").fill("");
  await page.getByRole("option", { name: "Retention" }).waitFor();
  // A long list below takes nothing of it.
  expect((await page.getByPlaceholder("Go to a page").boundingBox())?.height).toBe(44);
  await page.getByPlaceholder("Go to a page").fill("dark");
  await page.getByRole("option", { name: /Dark theme/ }).waitFor();
  await expectAccessible(page);
  await screenshot(page, "palette");
  await page.keyboard.press("Enter");
  expect(await page.locator("html").getAttribute("data-theme")).toBe("dark");
});

it("reads times of an address that have no zone in the chosen one", async () => {
  const page = await app.open("/metrics?from=2026-01-31T12:00&to=2026-02-01+02:00");
  const range = page.getByRole("button", { name: /^Time range/ });
  await range.getByText("2026-01-31 12:00:00 – 2026-02-01 02:00:00").waitFor();
  const asked = page.waitForRequest(
    (request) => request.url().endsWith("/api/query") && (request.postData() ?? "").includes("2026-01-31T06:30:00"),
  );
  await page.evaluate(`localStorage.setItem("telemetry.settings", '{"timeZone":"Asia/Kolkata"}')`);
  await page.reload();
  await asked;
  await range.waitFor();
  expect(await range.textContent()).toContain("2026-01-31 12:00:00 – 2026-02-01 02:00:00");
});

it("shows times in the zone that somebody chooses", async () => {
  const page = await app.open("/sql?from=2026-01-31T12:00:00Z&to=2026-01-31T13:00:00Z");
  await page.getByRole("button", { name: /settings and logout/ }).click();
  await page.getByRole("menuitem", { name: "Another time zone" }).click();
  await page.getByRole("combobox", { name: "Time zone" }).fill("Asia/Kolkata");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Show times there" }).click();
  await expect
    .poll(() => page.getByRole("button", { name: /Time range/ }).textContent())
    .toContain("2026-01-31 17:30:00 – 18:30:00");
  await page.getByRole("button", { name: /Time range/ }).click();
  await page.getByText("Times of Asia/Kolkata").waitFor();
  await page.getByRole("textbox", { name: "From" }).fill("2026-01-31 17:45");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.waitForURL(/from=2026-01-31T12:15:00.000Z/);
  await page.goto(`${app.url}/admin/erasure?new=1`);
  await page.getByText("2026-01-31 12:00 is of Asia/Kolkata").waitFor();
});

it.each([
  ["light", 1280],
  ["dark", 1280],
  ["light", 360],
  ["dark", 360],
] as const)("is accessible in the %s theme at %i pixels", async (theme, width) => {
  const page = await app.open("/sql", { theme, width });
  await page.getByRole("button", { name: "Run" }).waitFor();
  await expectAccessible(page);
  await screenshot(page, `shell-${theme}-${width}`);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
});

/** A page whose query waits for a login. */
async function pageWithoutSession(): Promise<Page> {
  const page = await app.open("/sql?sql=SELECT+41%2B1+AS+answer", { allow: /401/ });
  // The dialog may be there before, for what the page asks by itself; then it hides the button.
  const run = page.getByRole("button", { name: "Run", includeHidden: true });
  await run.waitFor();
  await page.context().clearCookies();
  await run.dispatchEvent("click");
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor();
  return page;
}

/** Such a page, and the window of the login. */
async function endedSession(): Promise<readonly [page: Page, popup: Page]> {
  const page = await pageWithoutSession();
  await expectAccessible(page);
  const [popup] = await Promise.all([page.waitForEvent("popup"), page.getByRole("button", { name: "Log in" }).click()]);
  return [page, popup];
}

it("lets somebody whose session has ended log in again in place, and goes on", async () => {
  const [page, popup] = await endedSession();
  await popup.getByRole("button", { name: "dev@localhost" }).click();
  await page.getByRole("gridcell", { name: "42" }).waitFor();
  expect(popup.isClosed()).toBe(true);
});

it("leads to the login in a tab where the browser opens no window", async () => {
  const page = await pageWithoutSession();
  await page.evaluate("window.open = () => null");
  await page.getByRole("button", { name: "Log in" }).click();
  const link = page.getByRole("link", { name: "Log in in another tab" });
  await link.waitFor();
  await expectAccessible(page);
  const [tab] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
  await tab.getByRole("button", { name: "dev@localhost" }).click();
  await page.getByRole("gridcell", { name: "42" }).waitFor();
  expect(await page.getByRole("dialog").count()).toBe(0);
});

it("says that a page could not be loaded, and loads it again", async () => {
  const page = await app.open("/logs", { allow: /assets|preload/ });
  const context = page.context();
  await context.route("**/assets/processes-page-*", (route) => route.abort("internetdisconnected"));
  await page.getByRole("link", { name: "Processes" }).click();
  await page.getByRole("alert").getByText("This page could not be loaded").waitFor();
  await context.unroute("**/assets/processes-page-*");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("grid", { name: "Processes" }).waitFor();
  expect(await page.getByRole("alert").count()).toBe(0);
});

it("keeps the hour of a range that clocks show twice", async () => {
  const page = await app.open("/sql?from=2026-10-25T00:00:00Z&to=2026-10-25T03:00:00Z");
  await page.evaluate(`localStorage.setItem("telemetry.settings", '{"timeZone":"Europe/Berlin"}')`);
  await page.reload();
  await page.getByRole("button", { name: /2026-10-25 02:00:00/ }).click();
  await page.getByRole("textbox", { name: "To" }).fill("2026-10-25 05:00");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.waitForURL(/to=2026-10-25T04:00:00.000Z/);
  expect(new URL(page.url()).searchParams.get("from")).toBe("2026-10-25T00:00:00Z");
});

it("goes on for nobody else: what waited is not done in the name of who logs in", async () => {
  const [page, popup] = await endedSession();
  const loaded = page.waitForEvent("load");
  await popup.getByRole("button", { name: "guest@localhost" }).click();
  await loaded;
  await page.getByRole("button", { name: /settings and logout/ }).click();
  await page.getByRole("menu").getByText("guest@localhost").waitFor();
  expect(await page.getByRole("gridcell", { name: "42" }).count()).toBe(0);
});

it("shows in every tab who is logged in, and nothing after a logout", async () => {
  const page = await app.open("/admin/groups", { allow: /401/ });
  await page.getByRole("grid", { name: "Groups" }).waitFor();
  const other = await page.context().newPage();
  await other.goto(`${app.url}/admin`);
  await other.getByRole("button", { name: /settings and logout/ }).click();
  await other.getByRole("menuitem", { name: "Log out" }).click();
  await page.waitForURL("**/login");
  expect(await page.getByRole("grid").count()).toBe(0);
  await page.goto(`${app.url}/admin/groups`);
  await page.getByRole("button", { name: "dev@localhost" }).click();
  await page.getByRole("grid", { name: "Groups" }).waitFor();
  await other.goto(`${app.url}/auth/login?return_to=/admin`);
  await other.getByRole("button", { name: "guest@localhost" }).click();
  await page.getByText("You are logged in as guest@localhost").waitFor();
});

it.each([
  ["", "light", 1],
  ["?audience=payments", "light", 2],
  ["?audience=payments-production-of-team-a", "dark", 2],
] as const)("has the whole title and few lines on a narrow screen (/services%s, %s)", async (search, theme, lines) => {
  const page = await app.open(`/services${search}`, { width: 390, theme });
  if (search !== "") {
    await page.getByRole("combobox", { name: "Audience" }).waitFor();
  }
  const title = page.getByRole("heading", { name: "Services", exact: true, level: 1 });
  expect(await title.evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)).toBe(true);
  const middles = await page
    .getByRole("banner")
    .locator("h1, button")
    .evaluateAll((parts) =>
      parts.map((part) => part.getBoundingClientRect()).map(({ top, bottom }) => Math.round((top + bottom) / 2)),
    );
  expect(new Set(middles).size).toBe(lines);
  await screenshot(page, `shell-narrow-${theme}-${search.length}`);
});

it("goes on in the page that a link leads to", async () => {
  const page = await app.open("/admin");
  await page
    .getByRole("main")
    .getByRole("link", { name: /^Audit/ })
    .focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Audit", level: 1 }).waitFor();
  await page.getByPlaceholder("Filter entries").waitFor();
  expect(await page.evaluate("document.activeElement.id")).toBe("page");
  await page.keyboard.press("Tab");
  expect(await page.getByPlaceholder("Filter entries").evaluate((field) => field.matches(":focus"))).toBe(true);
});

it("has the way past the navigation first", async () => {
  const page = await app.open("/logs");
  await page.getByRole("grid").first().waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  expect(await page.evaluate("document.activeElement.id")).toBe("page");
});

it("brings the entry of the page into view where the navigation is a bar", async () => {
  const page = await app.open("/admin", { width: 360 });
  const link = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Administration" });
  await expect.poll(async () => (await link.boundingBox())?.x ?? 1000).toBeLessThan(300);
  expect((await link.boundingBox())?.x).toBeGreaterThan(0);
});

/** A window of 1280 by 1024 pixels, of which somebody sees each four times as large. */
const enlarged = { width: 320, height: 256 } as const;

it.each(["/logs", "/logs?view=patterns", "/traces", "/services", "/processes"])(
  "has room for the rows of %s where everything is enlarged to four times its size",
  async (path) => {
    const page = await app.open(path, enlarged);
    const rows = page.getByRole("main").getByRole("grid").first();
    await rows.waitFor();
    await rows.evaluate((grid) => grid.scrollIntoView({ block: "end" }));
    const box = await rows.boundingBox();
    expect(box?.height).toBeGreaterThan(120);
    expect((box?.y ?? Infinity) + (box?.height ?? Infinity)).toBeLessThanOrEqual(enlarged.height);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(enlarged.width);
  },
);

/** Contrast, from 1 to 21, of the edge of every field that can be seen with what is behind it: its own, or its bar's. */
const edges = `[...document.querySelectorAll("textarea, [role=combobox], input:not([type=checkbox], [type=file])")]
  .filter((field) => field.checkVisibility() && !field.disabled && field.closest("[aria-hidden=true]") === null)
  .map((field) => {
    const luminance = (colour) => {
      const linear = (byte) => (byte > 10.3 ? ((byte / 255 + 0.055) / 1.055) ** 2.4 : byte / 255 / 12.92);
      const [red, green, blue] = colour.match(/\\d+/g).map(Number);
      return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    };
    const has = (style) => (element) => getComputedStyle(element)[style];
    const edged = has("borderBottomWidth")(field) === "0px" ? field.parentElement : field;
    let behind = edged.parentElement;
    while (has("backgroundColor")(behind) === "rgba(0, 0, 0, 0)") {
      behind = behind.parentElement;
    }
    const [a, b] = [has("borderBottomColor")(edged), has("backgroundColor")(behind)].map(luminance);
    const name = field.ariaLabel ?? field.labels?.[0]?.textContent ?? field.textContent;
    return [name, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  })`;

it.each([
  ["/logs", "dark", "Add a filter"],
  ["/logs", "light", "Add a filter"],
  ["/admin/retention?new=1", "dark", "Audience"],
  ["/admin/retention?new=1", "light", "Audience"],
  ["/admin/query-denials?new=1", "dark", "Because"],
] as const)("shows where fields begin and end in %s (%s)", async (path, theme, one) => {
  const page = await app.open(path, { theme });
  await page.getByLabel(one, { exact: true }).waitFor();
  const found: readonly (readonly [name: string, contrast: number])[] = await page.evaluate(edges);
  expect(found.map(([name]) => name)).toContain(one);
  expect(found.filter(([, contrast]) => contrast < 3)).toEqual([]);
});
