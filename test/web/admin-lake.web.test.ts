/** Retention, erasure and checks of the lake, which maintenance of the same server does. */
import { readdir, truncate } from "node:fs/promises";
import path from "node:path";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";

import { callApi, expectNoSideways } from "../helpers/web/admin-app.js";
import { expectAccessible, screenshot, useApp } from "../helpers/web/app.js";
import { until } from "../helpers/until.js";

const app = useApp({ traces: 5, args: ["--retention-days=400", "--maintenance-interval-seconds=1"] });

const script = "<img src=x onerror=alert(1)>";

/** Sends log records of a service with an attribute. */
async function sendLogs(service: string, values: readonly string[]): Promise<void> {
  const attribute = (key: string, stringValue: string) => ({ key, value: { stringValue } });
  const logRecords = values.map((value) => ({
    timeUnixNano: String(BigInt(Date.now()) * 1_000_000n),
    body: { stringValue: `of ${value}` },
    attributes: [attribute("user.id", value)],
  }));
  await app.send("/v1/logs", {
    resourceLogs: [
      { resource: { attributes: [attribute("service.name", service)] }, scopeLogs: [{ scope: {}, logRecords }] },
    ],
  });
}

async function choose(page: Page, label: string, option: string): Promise<void> {
  await page.getByRole("combobox", { name: label }).click();
  await page.getByRole("option", { name: option }).click();
}

it("says the default and what holds, and adds, changes and removes overrides", async () => {
  const page = await app.open("/admin/retention", { allow: /400/ });
  await page.getByText("Rows are kept for 400 days where no override says otherwise").waitFor();
  await page.getByText("The default holds for everything").waitFor();
  await page.getByRole("button", { name: "Add an override" }).first().click();
  const form = page.getByRole("form", { name: "Add an override" });
  await choose(page, "Rows", "Spans");
  await form.getByLabel("Audience").fill("team a");
  await form.getByLabel("Days").fill("0");
  await form.getByRole("button", { name: "Save" }).click();
  await form.getByText(/^Must be letters/).waitFor();
  await form.getByText("Must be a whole number from 1 to 36500").waitFor();
  await form.getByLabel("Audience").fill("team-a");
  await form.getByLabel("Days").fill("500");
  // Longer than before: nothing goes for that, so nothing is asked.
  await form.getByRole("button", { name: "Save" }).click();
  const panel = page.getByRole("complementary", { name: "Spans of team-a" });
  await panel.getByText(/Spans of team-a go 500 days after they were received/).waitFor();
  await panel.getByLabel("Days").fill("30");
  await panel.getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog", { name: "Keep spans of team-a for 30 days only?" });
  await dialog
    .getByText(/Now they are kept for 500 days. Within minutes the rows go that were received before/)
    .waitFor();
  await expectAccessible(page);
  await screenshot(page, "retention-confirm");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  expect((await callApi(page, "GET", "api/retention")).body).toMatchObject([{ days: 500 }]);
  await panel.getByRole("button", { name: "Save" }).click();
  await dialog.getByRole("button", { name: "Save, and remove what is older" }).click();
  await panel.getByText(/Spans of team-a go 30 days after/).waitFor();
  expect((await callApi(page, "GET", "api/retention")).body).toMatchObject([
    { view: "spans", audience: "team-a", days: 30, updated_by: "dev@localhost" },
  ]);
  await panel.getByLabel("Keep them for good").check();
  await panel.getByRole("button", { name: "Save" }).click();
  await panel.getByText("Spans of team-a are kept for good.").waitFor();
  await expectAccessible(page);
  await screenshot(page, "retention");
  await panel.getByRole("button", { name: "Remove…" }).click();
  await page.getByText(/Without it: Spans of team-a go 400 days after/).waitFor();
  await page.getByRole("button", { name: "Remove the override" }).click();
  await page.getByText("The default holds for everything").waitFor();
});

it("asks by what holds now, when somebody else has changed how long rows are kept", async () => {
  const page = await app.open("/admin");
  const rule = { view: "measures", audience: "team-b" };
  await callApi(page, "PUT", "api/retention", { ...rule, days: 7 });
  await page.goto(`${app.url}/admin/retention?open=measures/team-b`);
  const panel = page.getByRole("complementary", { name: /of team-b/ });
  await panel.getByText(/of team-b go 7 days after/).waitFor();
  await panel.getByLabel("Days").fill("30");
  await callApi(page, "PUT", "api/retention", { ...rule, days: 500 });
  await panel.getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog", { name: /of team-b for 30 days only/ });
  await dialog.getByText("Now they are kept for 500 days.").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  expect((await callApi(page, "GET", "api/retention")).body).toMatchObject([{ ...rule, days: 500 }]);
  expect(await panel.getByLabel("Days").inputValue()).toBe("30");
  await callApi(page, "DELETE", "api/retention?view=measures&audience=team-b");
});

it("saves how long rows are kept as it was when somebody saved it, not as it is typed while that is checked", async () => {
  const page = await app.open("/admin");
  const rule = { view: "measures", audience: "team-c" };
  await callApi(page, "PUT", "api/retention", { ...rule, days: 30 });
  await page.goto(`${app.url}/admin/retention?open=measures/team-c`);
  const panel = page.getByRole("complementary", { name: /of team-c/ });
  await panel.getByText(/of team-c go 30 days after/).waitFor();
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/api/retention/default", async (route) => {
    await held;
    await route.continue();
  });
  const asked = page.waitForRequest("**/api/retention/default");
  await panel.getByLabel("Days").fill("500");
  await panel.getByRole("button", { name: "Save" }).click();
  await asked;
  await panel.getByLabel("Days").fill("5");
  release();
  await panel.getByText(/of team-c go (?:500|5) days after/).waitFor();
  expect((await callApi(page, "GET", "api/retention")).body).toMatchObject([{ ...rule, days: 500 }]);
  expect(await panel.getByLabel("Days").inputValue()).toBe("5");
  await callApi(page, "DELETE", "api/retention?view=measures&audience=team-c");
});

it("erases what somebody confirmed, shows how it stands, and finds nothing a second time", async () => {
  await sendLogs(script, ["4711", "4711", "4712"]);
  const page = await app.open("/admin/erasure");
  await page.getByText("Nothing was erased").waitFor();
  for (const rows of ["2", "0"]) {
    await page.getByRole("button", { name: "Erase rows" }).first().click();
    const form = page.getByRole("form", { name: "Erase rows" });
    await choose(page, "Rows of", "An attribute");
    await form.getByRole("button", { name: "Erase…" }).click();
    await expect.poll(() => form.getByText("Must not be empty").count()).toBe(2); // audience and attribute
    await form.getByLabel("Audience").fill("public");
    await form.getByLabel("Attribute", { exact: true }).fill("user.id");
    await form.getByLabel("Value").fill("4711");
    await form.getByLabel("From").fill("now-1h");
    await form.getByLabel("Before").fill("now-2h");
    await form.getByText("Must be after the time at From").waitFor();
    await form.getByLabel("Before").fill("");
    await form.getByRole("button", { name: "Erase…" }).click();
    const dialog = page.getByRole("dialog", { name: "Erase the rows of the attribute user.id = 4711?" });
    await dialog
      .getByText(/of the audience public that have the attribute user.id = 4711, with a time from 20.*Z, are deleted/)
      .waitFor();
    await expectAccessible(page);
    await screenshot(page, "erasure-confirm");
    await dialog.getByRole("button", { name: "Erase them for good" }).click();
    const panel = page.getByRole("complementary", { name: "Erasure of the attribute user.id = 4711" });
    await panel.getByText(/, after \d/).waitFor();
    await expectAccessible(page);
    await screenshot(page, "erasure-done");
    const row = page.getByRole("grid").getByRole("row").filter({ hasText: "user.id" }).first();
    expect((await row.getByRole("gridcell").allTextContents()).slice(0, 4)).toEqual([
      "the attribute user.id = 4711",
      "done",
      rows,
      "public",
    ]);
    await panel.getByRole("button", { name: "Close" }).click();
  }
  await page.goto(`${app.url}/admin/audit`);
  await page.getByRole("gridcell", { name: "ended the erasure" }).first().waitFor();
  await page.getByRole("gridcell", { name: "asked for the erasure" }).first().click();
  const entry = page.getByRole("complementary", { name: "asked for the erasure" });
  await entry.getByText("user.id").first().waitFor();
  expect(await entry.textContent()).not.toContain("4711");
});

it("shows text of telemetry as text", async () => {
  const page = await app.open("/admin/erasure?new=1");
  const form = page.getByRole("form", { name: "Erase rows" });
  await form.getByLabel("Audience").fill("public");
  await form.getByLabel("Service", { exact: true }).fill(script);
  await form.getByRole("button", { name: "Erase…" }).click();
  await page.getByText(/Its processes are deleted as well/).waitFor();
  await page.getByRole("button", { name: "Erase them for good" }).click();
  await page
    .getByRole("complementary", { name: `Erasure of the service ${script}` })
    .getByText(/, after \d/)
    .waitFor();
  expect(await page.locator("img").count()).toBe(0);
});

it("checks the lake, and says what is wrong with it and what was mended", async () => {
  const page = await app.open("/admin/lake-checks");
  await page.getByText("No check yet").waitFor();
  await page.getByRole("button", { name: "Check the lake" }).first().click();
  await page.getByRole("form", { name: "Check the lake" }).getByRole("button", { name: "Check" }).click();
  const panel = page.getByRole("complementary", { name: "Check", exact: true });
  await panel.getByText("All is well").waitFor();
  await expectAccessible(page);

  await truncateObjects("log_entries");
  // An erasure that meets a broken object fails, and says so.
  await page.goto(`${app.url}/admin/erasure?new=1`);
  const erase = page.getByRole("form", { name: "Erase rows" });
  await erase.getByLabel("Audience").fill("public");
  await erase.getByLabel("Service", { exact: true }).fill("none");
  await erase.getByRole("button", { name: "Erase…" }).click();
  await page.getByRole("button", { name: "Erase them for good" }).click();
  await page
    .getByRole("alert")
    .getByText(
      /(?:An object is|[0-9]+ objects are) missing or damaged: log_entries.*telemetry lake check --deep --repair/u,
    )
    .waitFor();
  await page.getByRole("gridcell", { name: "failed", exact: true }).waitFor();
  await expectAccessible(page);
  await screenshot(page, "erasure-failed");

  await page.goto(`${app.url}/admin/lake-checks?new=1`);
  const form = page.getByRole("form", { name: "Check the lake" });
  await form.getByLabel(/^Read every value/).check();
  await form.getByLabel("Repair what can be repaired").check();
  await form.getByRole("button", { name: "Check and repair…" }).click();
  const dialog = page.getByRole("dialog", { name: "Check the lake and repair it?" });
  await dialog.getByText(/queries go on without its rows/).waitFor();
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Check and repair" }).click();
  await panel.getByText(/The object is broken. Queries over it fail/).waitFor();
  await panel.getByRole("list", { name: "Objects: unreadable" }).getByText("mended").first().waitFor();
  await expectAccessible(page);
  await screenshot(page, "lake-check");
  expect((await callApi(page, "GET", "api/lake-checks")).body).toMatchObject([
    { deep: true, repair: true, report: { counts: { missing: 0, wrong_rows: 0 } } },
    { deep: false, repair: false },
  ]);
});

it.each([
  ["dark", 1280],
  ["light", 360],
] as const)("says why an erasure cannot go on at present, in the %s theme at %i pixels", async (theme, width) => {
  const page = await app.open("/admin", { theme, width });
  // As the server answers while the object store is down: no erasure of this lake stands still for long.
  const rows = (await callApi(page, "GET", "api/erasures")).body as object[];
  const json = rows.map((row) => ({ ...row, state: "running", error: "the object store cannot be read" }));
  await page.route(/\/api\/erasures/u, (route) => route.fulfill({ json }));
  await page.goto(`${app.url}/admin/erasure`);
  await page.getByRole("gridcell", { name: "the attribute user.id = 4711" }).first().click();
  const banner = page.getByText("It cannot go on at present");
  await banner.waitFor();
  await page.getByText("the object store cannot be read").waitFor();
  await page.getByText("Maintenance tries again each minute.").waitFor();
  expect(await page.getByText("It runs").count()).toBe(0);
  await expectAccessible(page);
  await screenshot(page, `erasure-waits-${theme}`);
});

it.each([
  ["dark", 1280],
  ["light", 360],
  ["dark", 360],
] as const)("is accessible and fits, in the %s theme at %i pixels", async (theme, width) => {
  const page = await app.open("/admin", { theme, width });
  for (const [where, name, text] of [
    ["/admin/retention", "retention", "Rows are kept for 400 days"],
    ["/admin/retention?new=1", "retention-new", "Keep them for good"],
    ["/admin/erasure", "erasures", "the attribute user.id = 4711"],
    ["/admin/erasure?new=1", "erasure-new", "Only its rows go."],
    ["/admin/lake-checks", "lake-checks", "every value, with repair"],
  ] as const) {
    await page.goto(`${app.url}${where}`);
    await page.getByRole("main").getByText(text).first().waitFor();
    await expectAccessible(page);
    await expectNoSideways(page);
    await screenshot(page, `${name}-${theme}-${width}`);
    expect(page.url()).toContain(where);
  }
});

// The last, because retention first looks at the clock 60 intervals after the start.
it("says that nothing goes for its age while the clock cannot be trusted", async () => {
  const page = await app.open("/admin/retention");
  await until(async () => {
    const { body } = await callApi(page, "GET", "api/retention/default");
    return (body as { held_until: string | null }).held_until !== null;
  }, 90_000);
  await page.getByRole("button", { name: "Ask again" }).click();
  // Nobody had looked at it before.
  await page.getByText("Nothing is removed for its age now").waitFor();
  await expectAccessible(page);
  await screenshot(page, "retention-held");
  expect(new URL(page.url()).pathname).toBe("/admin/retention");
});

/** Cuts every object of a table short, as a disk does that loses what was not synced. */
async function truncateObjects(view: string): Promise<void> {
  const entries = await readdir(app.dataDirectory, { recursive: true });
  const objects = entries.filter((entry) => entry.includes(`/${view}/`) && entry.endsWith(".parquet"));
  expect(objects.length).toBeGreaterThan(0);
  await Promise.all(objects.map((entry) => truncate(path.join(app.dataDirectory, entry), 100)));
}
