/** Keys, audiences and groups, as an administrator and as a guest who may mint. */
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";

import { lockAudience } from "../../src/admin/locks.js";
import { connect, type Sql } from "../../src/db/sql.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { sqlConnectionOf } from "../../src/servers/sql-connection.js";
import { startWebServer, type WebServer } from "../../src/servers/web.js";
import { startTcpProxy } from "../helpers/auth/auth-tcp-proxy.js";
import { createTappedLogger, recordMinted } from "../helpers/cleartext/cleartext-tap.js";
import { callApi, expectNoSideways, expectNowhere } from "../helpers/web/admin-app.js";
import { expectAccessible, screenshot, useApp } from "../helpers/web/app.js";
import { until } from "../helpers/until.js";

const app = useApp({ traces: 0, args: ["--self-service-mint=true"] });

const script = "<img src=x onerror=alert(1)>";
const oneLog = {
  resourceLogs: [{ scopeLogs: [{ logRecords: [{ body: { stringValue: "hello" }, timeUnixNano: "1" }] }] }],
};

/** Does something with the database of the application. */
async function withDatabase(work: (sql: Sql) => Promise<unknown>): Promise<void> {
  const sql = connect({
    connectionString: await sqlConnectionOf({ sqlConnectionString: null, dataDir: app.dataDirectory }),
    maxConnections: 2,
    applicationName: "another-server",
    logger: createTappedLogger(),
  });
  try {
    await work(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

/** Does something while another server is at a claim of an audience: it holds the lock that claims take. */
async function whileClaimed(audience: string, work: () => Promise<void>): Promise<void> {
  await withDatabase((sql) =>
    sql.begin(async (tx) => {
      await lockAudience(tx, audience);
      await work();
    }),
  );
}

/** Fills the form for a key and gives what the banner shows. */
async function mint(page: Page, name: string, audience?: string): Promise<string> {
  await page.getByLabel("Name", { exact: true }).fill(name);
  if (audience !== undefined) {
    await page.getByLabel("Audience", { exact: true }).fill(audience);
  }
  await page.getByRole("button", { name: "Mint the key" }).click();
  const banner = page.getByRole("group", { name: "New key" }).filter({ hasText: `“${name}”` });
  const key = await banner.locator("code").first().textContent();
  recordMinted(key ?? "");
  return key ?? "";
}

it("shows a minted key once, in a banner that is gone when it is dismissed", async () => {
  const page = await app.open("/admin/ingestion-keys");
  await page.getByRole("button", { name: "Mint a key" }).click();
  const key = await mint(page, script, "public");
  expect(key).toMatch(/^svk_[0-9A-Za-z]{40,}$/);
  await expectAccessible(page);
  await screenshot(page, "key-banner-light");
  // It is where one looks, and not in the address, in storage, or in a form.
  await page.getByRole("button", { name: "Copy the key" }).click();
  expect(await page.evaluate("navigator.clipboard.readText()")).toBe(key);
  await page.evaluate("navigator.clipboard.writeText('')");
  await expectNowhere(page, key, { dom: false });
  await page.getByRole("group", { name: "New key" }).getByRole("button", { name: "Dismiss" }).click();
  await expectNowhere(page, key);
  await page.getByRole("gridcell", { name: script, exact: true }).waitFor();
  expect(await page.locator("img").count()).toBe(0);
  await page.reload();
  await page.getByRole("gridcell", { name: script, exact: true }).waitFor();
  await expectNowhere(page, key);
});

it("keeps a key on the page when another one is minted", async () => {
  const page = await app.open("/admin/analytics-keys?new=1");
  page.on("dialog", (dialog) => void dialog.accept());
  const first = await mint(page, "first of two");
  await page.getByRole("button", { name: "Mint a key" }).click();
  const second = await mint(page, "second of two");
  const banners = page.getByRole("group", { name: "New key" });
  expect(await banners.locator("code").filter({ hasText: "svk_" }).allTextContents()).toEqual([second, first]);
  await screenshot(page, "two-key-banners");
  await banners.filter({ hasText: "second of two" }).getByRole("button", { name: "Dismiss" }).click();
  expect(await banners.locator("code").filter({ hasText: "svk_" }).allTextContents()).toEqual([first]);
});

it("does not show a key again that was not dismissed, neither after a reload nor on the way back", async () => {
  const page = await app.open("/admin/analytics-keys?new=1");
  const key = await mint(page, "dashboard");
  page.once("dialog", (dialog) => void dialog.dismiss());
  const asked = page.waitForEvent("dialog");
  await page.getByRole("link", { name: "Administration" }).click();
  expect((await asked).message()).toContain("never shown again");
  await page.getByRole("group", { name: "New key" }).getByText(key).waitFor();
  page.on("dialog", (dialog) => void dialog.accept());
  await page.getByRole("link", { name: "Administration" }).click();
  await page.getByRole("heading", { name: "Access" }).waitFor();
  await expectNowhere(page, key);
  await page.goBack();
  await page.getByRole("gridcell", { name: "dashboard", exact: true }).waitFor();
  await expectNowhere(page, key);
  expect(await page.getByRole("group", { name: "New key" }).count()).toBe(0);
});

it("leaves no live key to who leaves the page before it is shown", async () => {
  const page = await app.open("/admin/analytics-keys?new=1");
  const keys = async (): Promise<readonly unknown[]> =>
    (await callApi(page, "GET", "api/analytics-api-keys?include_revoked=true")).body as readonly unknown[];
  await withDatabase((sql) =>
    sql.begin(async (tx) => {
      await tx`lock table analytics_api_keys in share mode`;
      await page.getByLabel("Name", { exact: true }).fill("left");
      await page.getByRole("button", { name: "Mint the key" }).click();
      await until(async () => {
        const waiting = await sql`select from pg_stat_activity where wait_event_type = 'Lock'`;
        return waiting.length > 0;
      });
      const gone = page.waitForEvent("requestfailed");
      await page.getByRole("link", { name: "Administration" }).click();
      await gone;
    }),
  );
  const revoked: unknown = expect.objectContaining({ name: "left", revoked_at: expect.any(String) as unknown });
  await expect.poll(keys, { timeout: 10_000 }).toContainEqual(revoked);
});

it("grants an analytics key what it may read, and takes it back", async () => {
  const page = await app.open("/admin/analytics-keys?new=1");
  page.on("dialog", (dialog) => void dialog.accept());
  await mint(page, "reader");
  await page.getByRole("button", { name: "Dismiss" }).click();
  await page.getByRole("gridcell", { name: "reader", exact: true }).click();
  const panel = page.getByRole("complementary", { name: "reader" });
  await panel.getByLabel("Audience", { exact: true }).fill("team reader");
  await panel.getByRole("button", { name: "Grant" }).click();
  await panel.getByText(/^Must be letters, digits/).waitFor();
  await panel.getByLabel("Audience", { exact: true }).fill("public");
  await panel.getByRole("button", { name: "Grant" }).click();
  const reads = panel.getByRole("list", { name: "Audiences that reader may read" });
  await reads.getByText("public").waitFor();
  await expectAccessible(page);
  await screenshot(page, "analytics-key");
  await reads.getByRole("button", { name: /^Take from key:/ }).click();
  await panel.getByText(/Nothing yet/).waitFor();
  expect(await reads.count()).toBe(0);
});

it("revokes a key after a question that names it, and lists it among the revoked", async () => {
  const page = await app.open("/admin/ingestion-keys?new=1");
  await mint(page, "old build", "public");
  await page.getByRole("button", { name: "Dismiss" }).click();
  await page.getByRole("gridcell", { name: "old build", exact: true }).click();
  await page.getByRole("button", { name: "Revoke…" }).click();
  const dialog = page.getByRole("dialog", { name: "Revoke the key “old build”?" });
  await expectAccessible(page);
  await screenshot(page, "key-revoke");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("gridcell", { name: "old build", exact: true }).waitFor();
  await page.getByRole("button", { name: "Revoke…" }).click();
  await dialog.getByRole("button", { name: "Revoke “old build”" }).click();
  await page.getByRole("gridcell", { name: "old build", exact: true }).waitFor({ state: "detached" });
  await page.getByRole("combobox", { name: "Which keys" }).click();
  await page.getByRole("option", { name: "Revoked keys" }).click();
  await page.getByRole("gridcell", { name: "old build", exact: true }).waitFor();
  expect(page.url()).toContain("show=revoked");
});

it("says at its field what is wrong, as the server does, and at the form what is refused", async () => {
  const page = await app.open("/admin/ingestion-keys?new=1", { allow: /40[039]/ });
  await page.getByRole("button", { name: "Mint the key" }).click();
  await expect.poll(() => page.getByText("Must not be empty").isVisible()).toBe(true);
  const name = page.getByLabel("Name", { exact: true });
  await expect.poll(() => name.evaluate((field) => field.matches(":focus"))).toBe(true);
  await page.getByLabel("Name", { exact: true }).fill("ä".repeat(128));
  await page.getByText("Must be at most 255 bytes in UTF-8").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("build");
  await page.getByLabel("Audience", { exact: true }).fill("team a");
  await page.getByText(/^Must be letters, digits, _ and - only/).waitFor();
  await page.getByLabel("Audience", { exact: true }).fill("team-a");
  // What the server says of a field that the page lets through.
  await page.getByLabel("Name", { exact: true }).fill("bu\0ild");
  await page.getByRole("button", { name: "Mint the key" }).click();
  await page.getByText("Must be valid Unicode text without NUL").waitFor();
  expect(await page.getByRole("alert").count()).toBe(0);
  await page.getByLabel("Name", { exact: true }).fill("build");
  await whileClaimed("team-a", async () => {
    await page.getByRole("button", { name: "Mint the key" }).click();
    await page
      .getByRole("alert")
      .getByText(/Somebody else is claiming this audience at the same moment/)
      .waitFor();
  });
  await mint(page, "build");
  await page.getByText("The audience team-a is yours now").waitFor();
});

/** A web server beside that of the monolith. @param connectionString null: it has no database */
function startBeside(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  connectionString: string | null,
): Promise<WebServer> {
  return startWebServer({
    config: parseConfig("web", args, environment),
    connectionString,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
}

it("shows in its place, on the pages of keys, what a server says that has neither database nor login", async () => {
  const page = await app.open("/admin", { allow: /503/ });
  const token = (await page.context().cookies()).find(({ name }) => name === "id_token")?.value ?? "";
  const { iss: issuer, aud } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as {
    readonly iss: string;
    readonly aud: string | readonly string[];
  };
  const listen = { SVC_WEB_LISTEN: "127.0.0.1:0" };
  const configured = await startBeside(
    [],
    { ...listen, SVC_OIDC_CONFIG: JSON.stringify({ issuers: [{ issuer, audience: [aud].flat()[0] }] }) },
    await sqlConnectionOf({ sqlConnectionString: null, dataDir: app.dataDirectory }),
  );
  const bare = await startBeside(["--disable-auth"], listen, null);
  const proxy = await startTcpProxy(configured.url);
  try {
    await page.goto(`${proxy.connectionString}admin`);
    await page.getByRole("heading", { name: "Access" }).waitFor();
    await proxy.refuse();
    await proxy.restore(bare.url);
    const words = "not available while authentication is disabled";
    for (const [keys, said] of [
      ["Ingestion keys", words],
      ["Analytics keys", words],
      ["Audit", "this server has no database; set SVC_SQL_CONNECTION_STRING"],
    ] as const) {
      await page.getByRole("main").getByRole("link", { name: keys }).click();
      await page.getByRole("alert").getByText(said).waitFor();
      await page.getByRole("heading", { name: keys }).waitFor();
      await page.getByRole("alert").getByRole("button", { name: "Try again" }).waitFor();
      expect(await page.getByRole("grid").count()).toBe(0);
      await expectAccessible(page);
      await screenshot(page, `unconfigured-${keys.slice(0, 5)}`);
      await page.goBack();
    }
    await page.getByRole("main").getByRole("link", { name: "Ingestion keys" }).click();
    await page.getByRole("button", { name: "Mint a key" }).click();
    await page.getByLabel("Name", { exact: true }).fill("build");
    await page.getByRole("button", { name: "Mint the key" }).click();
    await page.getByRole("form").getByRole("alert").getByText(words).waitFor();
    expect(await page.getByRole("group", { name: "New key" }).count()).toBe(0);
  } finally {
    await proxy.stop();
    await configured.stop();
    await bare.stop();
  }
});

it("says that a server without a login has nothing for anybody", async () => {
  const server = await startBeside(["--disable-auth"], { SVC_WEB_LISTEN: "127.0.0.1:0" }, null);
  try {
    for (const keys of ["ingestion", "analytics"]) {
      const page = await app.open("/admin");
      await page.goto(`${server.url}/admin/${keys}-keys`);
      await page.getByText("It runs without authentication, so nobody can be told apart.").waitFor();
      await expectAccessible(page);
      await screenshot(page, `keys-503-${keys}`);
      expect(await callApi(page, "GET", `api/${keys}-api-keys`)).toMatchObject({
        status: 503,
        body: { code: "AUTH_DISABLED" },
      });
    }
  } finally {
    await server.stop();
  }
});

it("lets a guest mint for a fresh audience, who then owns it, and keeps others out", async () => {
  const page = await app.open("/admin/ingestion-keys", { as: "guest", allow: /403/ });
  const asked: string[] = [];
  page.on("request", (request) => asked.push(`${request.method()} ${new URL(request.url()).pathname}`));
  await page.reload();
  await page.getByRole("heading", { name: "Mint an ingestion key" }).waitFor();
  expect(await page.getByRole("grid").count()).toBe(0);
  await page.getByLabel("Name", { exact: true }).fill("laptop");
  await page.getByLabel("Audience", { exact: true }).fill("public");
  await page.getByRole("button", { name: "Mint the key" }).click();
  await page
    .getByRole("alert")
    .getByText(/public cannot be claimed|public is taken by somebody else/)
    .waitFor();
  await screenshot(page, "guest-forbidden");
  const key = await mint(page, "laptop", "guest-lab");
  await page.getByText("The audience guest-lab is yours now").waitFor();
  const sent = await fetch(`${app.ingestionUrl}/ingestion/otlp/v1/logs`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify(oneLog),
  });
  expect(sent.status).toBe(200);
  await expectAccessible(page);
  await page.getByRole("button", { name: "Dismiss" }).click();
  await expectNowhere(page, key);
  // The lists are for administrators: they are not even asked for.
  expect(asked.filter((each) => each === "GET /api/ingestion-api-keys")).toEqual([]);

  await page.goto(`${app.url}/audiences`);
  const row = page.getByRole("grid").first().getByRole("row").filter({ hasText: "guest-lab" });
  await row.waitFor();
  expect(await row.getByRole("gridcell").allTextContents()).toEqual(["guest-lab", "yes", "yes"]);
  await row.getByRole("gridcell").first().click();
  const panel = page.getByRole("complementary", { name: "guest-lab" });
  await panel.getByText("may read it, may mint for it").waitFor();
  expect(await panel.getByText("Who may read it").count()).toBe(0);
  await expectAccessible(page);
  await screenshot(page, "guest-audience");

  const admin = await app.open("/admin/ingestion-keys?new=1", { allow: /403/ });
  await admin.getByLabel("Name", { exact: true }).fill("mine");
  await admin.getByLabel("Audience", { exact: true }).fill("guest-lab");
  await admin.getByRole("button", { name: "Mint the key" }).click();
  await admin
    .getByRole("alert")
    .getByText(/audience guest-lab is taken by somebody else/)
    .waitFor();
});

it("shows administrators who reads and owns an audience, and grants and takes", async () => {
  const page = await app.open("/audiences?open=public");
  const panel = page.getByRole("complementary", { name: "public" });
  await panel.getByText("* (everybody)").waitFor();
  await panel.getByLabel("To whom").fill("guest@localhost");
  await panel.getByRole("button", { name: "Grant", exact: true }).click();
  await panel.getByText(/^Must be user:<email>, group:<name>/).waitFor();
  await panel.getByLabel("To whom").fill("user:guest@localhost");
  await panel.getByRole("combobox", { name: "What" }).click();
  await page.getByRole("option", { name: "Mint keys that write to it" }).click();
  await panel.getByRole("button", { name: "Grant", exact: true }).click();
  const minters = panel.getByRole("list", { name: "Minters of public" });
  await minters.getByText("user:guest@localhost").waitFor();
  await expectAccessible(page);
  await screenshot(page, "audience-admin");

  const guest = await app.open("/audiences", { as: "guest" });
  const row = guest.getByRole("row").filter({ hasText: "public" });
  await row.waitFor();
  expect(await row.getByRole("gridcell").allTextContents()).toEqual(["public", "yes", "yes"]);

  await minters.getByRole("button", { name: "Take from user:guest@localhost: mint public" }).click();
  await minters.getByText("user:guest@localhost").waitFor({ state: "detached" });
});

it("keeps a page with long names beside the panel", async () => {
  const audience = "payments-and-settlements-of-a-region-that-has-a-long-name-and-of-those-around-it";
  const page = await app.open("/audiences");
  const name = `for ${audience}`;
  expect(await callApi(page, "POST", "api/ingestion-api-keys", { name, audience })).toMatchObject({ status: 201 });
  await page.goto(`${app.url}/audiences?open=${audience}`);
  await page.getByRole("heading", { name: "Your ingestion keys" }).waitFor();
  await page.getByRole("link", { name }).waitFor();
  const panel = await page.getByRole("complementary", { name: audience }).boundingBox();
  const table = await page.getByRole("grid").first().boundingBox();
  expect((table?.x ?? Infinity) + (table?.width ?? 0)).toBeLessThanOrEqual(panel?.x ?? 0);
});

it.each([1440, 800, 400])("says what was done beside what can be pressed in a panel, at %i pixels", async (width) => {
  const page = await app.open("/admin/groups", { width });
  const group = `crew-${width}`;
  expect(await callApi(page, "POST", "api/groups", { name: group })).toMatchObject({ status: 201 });
  await page.goto(`${app.url}/admin/groups?open=${group}`);
  await page.getByLabel("Add somebody").fill("somebody-with-a-very-long-name-of-many-parts@a-long-domain.example.com");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  const said = page.getByRole("region", { name: "Notifications" }).getByRole("dialog");
  await said.waitFor();
  const [toast, panel] = await Promise.all([said.boundingBox(), page.getByRole("complementary").boundingBox()]);
  await screenshot(page, `toast-${width}`);
  expect(toast).not.toBeNull();
  const isBeside = (toast?.x ?? 0) + (toast?.width ?? 0) <= (panel?.x ?? 0);
  const isBelow = (toast?.y ?? 0) >= (panel?.y ?? 0) + (panel?.height ?? 0);
  expect(isBeside || isBelow).toBe(true);
});

it("shows the whole of a long name in a list to choose from, within the window", async () => {
  const audience = "a_name_that_a_program_made".repeat(8);
  const page = await app.open("/logs", { width: 400 });
  const body = { name: "long", audience };
  expect(await callApi(page, "POST", "api/ingestion-api-keys", body)).toMatchObject({ status: 201 });
  await page.reload();
  await page.getByRole("combobox", { name: "Audience" }).click();
  const option = page.getByRole("option", { name: audience });
  await option.waitFor();
  expect(await page.getByRole("listbox").evaluate((list) => list.scrollWidth - list.clientWidth)).toBe(0);
  await page.setViewportSize({ width: 1280, height: 800 });
  await expect.poll(async () => (await option.boundingBox())?.width ?? 0).toBeGreaterThan(400);
  expect((await option.boundingBox())?.width).toBeLessThan(600);
});

it("makes groups, adds and takes out members, and keeps the last administrator", async () => {
  const page = await app.open("/admin/groups?new=1", { allow: /409/ });
  await page.getByLabel("Name", { exact: true }).fill("a/b");
  await page.getByRole("button", { name: "Make the group" }).click();
  await page.getByText(/^Must be a name without slash/).waitFor();
  await page.getByLabel("Name", { exact: true }).fill(script);
  await page.getByRole("button", { name: "Make the group" }).click();
  await page.getByText(/^Must be a name without slash/).waitFor({ state: "detached" });
  const panel = page.getByRole("complementary", { name: script });
  await panel.getByLabel("Add somebody").fill("guest@localhost");
  await panel.getByRole("button", { name: "Add", exact: true }).click();
  await panel
    .getByRole("list", { name: `Members of ${script}` })
    .getByText("user:guest@localhost")
    .waitFor();
  await expectAccessible(page);
  await screenshot(page, "group");
  await panel.getByRole("button", { name: "Take user:guest@localhost out" }).click();
  await panel.getByText("Nobody yet. Add somebody by email.").waitFor();
  await panel.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: `Delete “${script}”` }).click();
  await page.getByRole("gridcell", { name: script, exact: true }).waitFor({ state: "detached" });

  await page.getByRole("gridcell", { name: "admins", exact: true }).click();
  expect(await page.getByRole("gridcell", { name: script, exact: true }).count()).toBe(0);
  await page.getByRole("button", { name: "Take out…" }).click();
  await page.getByRole("button", { name: "Take user:dev@localhost out" }).click();
  await page
    .getByRole("dialog")
    .getByRole("alert")
    .getByText(/last member|admins/)
    .first()
    .waitFor();
  expect(await page.locator("img").count()).toBe(0);
});

it("keeps the focus of who adds, takes out and deletes by keyboard", async () => {
  const page = await app.open("/admin/groups", { allow: /503/ });
  expect(await callApi(page, "POST", "api/groups", { name: "by-keyboard" })).toMatchObject({ status: 201 });
  await page.goto(`${app.url}/admin/groups?open=by-keyboard`);
  const panel = page.getByRole("complementary", { name: "by-keyboard" });
  const hasFocus = async (at: Locator): Promise<boolean> => await at.evaluate((element) => element.matches(":focus"));
  await panel.getByLabel("Add somebody").fill("guest@localhost");
  const add = panel.getByRole("button", { name: "Add", exact: true });
  await add.press("Enter");
  const takeOut = panel.getByRole("button", { name: "Take user:guest@localhost out" });
  await takeOut.waitFor();
  expect(await hasFocus(add)).toBe(true);
  await takeOut.press("Enter");
  await takeOut.waitFor({ state: "detached" });
  await expect.poll(() => panel.locator(":focus").count()).toBe(1);

  await page.route("**/api/groups/by-keyboard", (route) =>
    route.fulfill({ status: 503, json: { code: "UNAVAILABLE", message: "Not now." } }),
  );
  await panel.getByRole("button", { name: "Delete…" }).press("Enter");
  const dialog = page.getByRole("dialog", { name: "Delete the group" });
  const confirm = dialog.getByRole("button", { name: "Delete “by-keyboard”" });
  await confirm.press("Enter");
  await dialog.getByRole("alert").waitFor();
  expect(await hasFocus(confirm)).toBe(true);
});

it("shows a member that was added before the members were read", async () => {
  const page = await app.open("/admin/groups");
  expect(await callApi(page, "POST", "api/groups", { name: "early" })).toMatchObject({ status: 201 });
  const added = page.waitForResponse((response) => response.request().method() === "POST");
  // The first answer is of before, and comes afterwards.
  let isFirst = true;
  await page.route("**/api/groups/early/members*", async (route) => {
    if (route.request().method() === "GET" && isFirst) {
      isFirst = false;
      const response = await route.fetch();
      await added;
      await route.fulfill({ response });
    } else {
      await route.continue();
    }
  });
  await page.goto(`${app.url}/admin/groups?open=early`);
  const panel = page.getByRole("complementary", { name: "early" });
  await panel.getByLabel("Add somebody").fill("guest@localhost");
  await panel.getByRole("button", { name: "Add", exact: true }).click();
  await panel.getByRole("list", { name: "Members of early" }).getByText("user:guest@localhost").waitFor();
});

it.each([
  ["dark", 1280],
  ["light", 360],
] as const)("is accessible and fits, in the %s theme at %i pixels", async (theme, width) => {
  const admin = await app.open("/admin/ingestion-keys", { theme, width });
  for (const [path, name, text] of [
    ["/admin/ingestion-keys", "keys", "development mode"],
    ["/admin/ingestion-keys?new=1", "mint", "Mint an ingestion key"],
    ["/admin/groups?open=admins", "groups", "user:dev@localhost"],
    ["/audiences", "audiences", "guest-lab"],
  ] as const) {
    await admin.goto(`${app.url}${path}`);
    await admin.getByText(text).first().waitFor();
    await expectAccessible(admin);
    await expectNoSideways(admin);
    await screenshot(admin, `${name}-${theme}-${width}`);
  }
  const guest = await app.open("/audiences", { as: "guest", theme, width });
  await guest.getByText("guest-lab").first().waitFor();
  await expectAccessible(guest);
  await expectNoSideways(guest);
  await screenshot(guest, `guest-audiences-${theme}-${width}`);
  expect(new URL(guest.url()).pathname).toBe("/audiences");
});

it("shows guests the use of their own keys, and nothing of others'", async () => {
  const guest = await app.open("/audiences", { as: "guest" });
  await until(async () => {
    const { body } = await callApi(guest, "GET", "api/usage");
    return Array.isArray(body) && body.length > 0;
  }, 25_000);
  await guest.reload();
  await guest.getByRole("region", { name: "Your ingestion keys" }).getByRole("link", { name: "laptop" }).click();
  const grid = guest.getByRole("grid", { name: "Usage by key" });
  await grid.getByRole("gridcell", { name: "laptop" }).waitFor();
  expect(await grid.getByRole("row").count()).toBe(2);
  await expectAccessible(guest);
  const showAll = guest.getByRole("button", { name: /show all keys and audiences/ });
  await showAll.click();
  await showAll.waitFor({ state: "detached" });
  // The rows from before stay until those of all are there.
  await guest.locator("[data-running=true]").waitFor({ state: "detached" });
  expect(await grid.getByRole("row").count()).toBe(2);
  await screenshot(guest, "guest-usage");
});

it("makes the rows in view of however many own keys, which open their use", async () => {
  const count = 20_000;
  const page = await app.open("/", { as: "guest" });
  const use = Array.from({ length: count }, (_, key) => ({
    at: new Date(Date.UTC(2026, 0, 1) - key * 60_000).toISOString(),
    key_id: `key-${key}`,
    name: `service ${key}`,
    audience: "public",
    requests: key,
    bytes: key,
    records: key,
  }));
  await page.route("**/api/usage?*mine=true*", (route) => route.fulfill({ json: use }));
  await page.goto(`${app.url}/audiences`);
  const grid = page.getByRole("grid", { name: "Your ingestion keys" });
  await grid.getByRole("link", { name: "service 0", exact: true }).waitFor();
  expect(await grid.getAttribute("aria-rowcount")).toBe(String(count + 1));
  expect(await grid.getByRole("row").count()).toBeLessThan(100);
  await screenshot(page, "own-keys");
  await grid.press("End");
  await grid.getByRole("link", { name: `service ${count - 1}` }).waitFor();
  await grid.press("Enter");
  await page.waitForURL(`**/admin/usage?key=key-${count - 1}`);
});

it("asks the server for an administrator's own keys, and says where there are more than it shows", async () => {
  const page = await app.open("/");
  await page.route("**/api/ingestion-api-keys?*mine=true*", (route) => {
    const offset = Number(new URL(route.request().url()).searchParams.get("offset"));
    const json = Array.from({ length: 500 }, (_, at) => ({
      key_id: `key-${offset + at}`,
      name: `service ${offset + at}`,
      audience: "public",
      last_used_at: null,
    }));
    return route.fulfill({ json });
  });
  await page.goto(`${app.url}/audiences`);
  const own = page.getByRole("region", { name: "Your ingestion keys" });
  await own.getByText(/^The newest 20,000 live ones that you minted/).waitFor();
  expect(await own.getByRole("grid").getAttribute("aria-rowcount")).toBe("20001");
  await screenshot(page, "own-keys-admin");
});

it("shows who is no administrator any more what is for them, at once", async () => {
  const admin = await app.open("/admin/groups?open=admins");
  await callApi(admin, "POST", "api/groups/admins/members", { member: "user:guest@localhost" });
  const page = await app.open("/admin/groups?open=admins", { as: "guest", allow: /403/ });
  const panel = page.getByRole("complementary", { name: "admins" });
  await panel.getByRole("button", { name: "Take out…" }).click();
  await page.getByRole("button", { name: "Take user:guest@localhost out" }).click();
  await page.getByText("This page is for administrators").waitFor();
  expect(await page.getByRole("grid").count()).toBe(0);
});
