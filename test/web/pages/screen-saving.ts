/** Saving screens, also by two at once: whose version is which, and what nobody loses. */
import { expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { putScreen } from "../../helpers/web/screens.js";
import { shopCells } from "../../helpers/web/shop-cells.js";

const app = sharedApp();

const cells = shopCells("# Shop");

it("tells which version is present when there are others meanwhile", async () => {
  const page = await app.open("/screens");
  const config = { format: 1, cells: [{ kind: "markdown", id: "text", text: "# First" }] };
  expect(await putScreen(page, "outrun", { config, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/outrun`);
  await page.getByRole("button", { name: "Versions" }).click();
  const versions = page.getByRole("complementary", { name: "Versions" }).getByRole("listitem");
  const present = versions.filter({ hasText: "the present one" });
  await present.getByText("1", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("textbox", { name: "Markdown" }).fill("# Second");
  await page.getByRole("button", { name: "Save" }).click();
  await present.getByText("2", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Versions" }).click();
  expect(await putScreen(page, "outrun", { config, version: 2 })).toBe(200);
  await page.getByRole("button", { name: "Versions" }).click();
  await page.getByRole("button", { name: "Edit version 3" }).waitFor();
  await versions.filter({ hasText: "shown here" }).getByText("2", { exact: true }).waitFor();
  expect(await present.count()).toBe(0);
});

it("shows the second of two who save what the first has changed", async () => {
  const allow = /409|503/;
  const first = await app.open("/screens", { allow });
  expect(await putScreen(first, "both", { config: { format: 1, cells: cells.slice(0, 1) }, version: 0 })).toBe(201);
  await first.goto(`${app.url}/screen/both`);
  await first.getByRole("button", { name: "Edit" }).click();
  await first.getByRole("textbox", { name: "Markdown" }).fill("# Mine");
  expect(await putScreen(first, "both", { config: { format: 1, cells: cells.slice(0, 2) }, version: 1 })).toBe(200);
  await first.getByRole("button", { name: "Save" }).click();
  const dialog = first.getByRole("dialog", { name: "dev@localhost has saved this screen meanwhile" });
  await dialog.getByText("added: Service").waitFor();
  await dialog.getByText("changed: Mine").waitFor();
  await expectAccessible(first);
  await first.route("**/api/screens/both", (route) =>
    route.fulfill({ status: 503, json: { code: "UNAVAILABLE", message: "Not now." } }),
  );
  await dialog.getByRole("button", { name: "Save mine over theirs" }).click();
  await dialog.getByRole("alert").getByText("Not now.").waitFor();
  expect(await first.getByText("Not now.").count()).toBe(1);
  await expectAccessible(first);
  await first.unroute("**/api/screens/both");
  await dialog.getByRole("button", { name: "Save mine over theirs" }).click();
  await first.getByText("version 3 by dev@localhost").waitFor();
  await first.getByRole("heading", { name: "Mine" }).waitFor();
});

it("tells the second of two who save that the first has a newer release", async () => {
  const page = await app.open("/screens", { allow: /409/ });
  expect(await putScreen(page, "newer", { config: { format: 1, cells: cells.slice(0, 1) }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/newer`);
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Markdown" }).fill("# Mine");
  expect(await putScreen(page, "newer", { config: { format: 2, cells: [] }, version: 1 })).toBe(200);
  await page.getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog", { name: "dev@localhost has saved this screen meanwhile" });
  await dialog.getByText("This screen has format 2, and this release reads 1").waitFor();
  expect(await dialog.getByText("removed:").count()).toBe(0);
  const edge = await dialog.boundingBox();
  const action = await dialog.getByRole("button", { name: "Go on editing" }).boundingBox();
  expect(action?.x).toBeGreaterThan(edge?.x ?? Infinity);
  await expectAccessible(page);
  await screenshot(page, "screen-newer");
});

it("tells the second of two who save that the first has moved the screen", async () => {
  const page = await app.open("/screens", { allow: /409/ });
  const config = { format: 1, cells: cells.slice(0, 1) };
  expect(await putScreen(page, "moving", { config, version: 0 })).toBe(201);
  const folder = { method: "POST", headers: { "content-type": "application/json" }, body: '{"name":"Shop"}' };
  expect(await page.evaluate(async (init) => (await fetch("/api/folders", init)).status, folder)).toBe(201);
  await page.goto(`${app.url}/screen/moving`);
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByRole("textbox", { name: "Markdown" }).fill("# Mine");
  expect(await putScreen(page, "moving", { config, folder: "Shop", version: 1 })).toBe(200);
  await page.getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog", { name: "dev@localhost has saved this screen meanwhile" });
  await dialog.getByText("moved to the folder Shop").waitFor();
  await dialog.getByText("changed: Mine").waitFor();
  await screenshot(page, "screen-conflict");
});

it("keeps what somebody edits when the screen is deleted, and when another version is looked for", async () => {
  const page = await app.open("/screens", { allow: /40[49]/ });
  const config = { format: 1, cells: cells.slice(0, 1) };
  expect(await putScreen(page, "kept", { config, version: 0 })).toBe(201);
  expect(await putScreen(page, "kept", { config, version: 1 })).toBe(200);
  await page.goto(`${app.url}/screen/kept`);
  await page.getByRole("button", { name: "Versions" }).click();
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const text = page.getByRole("textbox", { name: "Markdown" });
  await text.fill("# Mine");
  const asked = page.waitForEvent("dialog").then((dialog) => dialog.dismiss());
  await page.getByRole("button", { name: /^Edit version/ }).click();
  await asked;
  expect(await text.inputValue()).toBe("# Mine");
  await page.evaluate("fetch('/api/screens/kept?version=2', { method: 'DELETE' })");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Somebody has deleted this screen meanwhile").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("version 3 by dev@localhost").waitFor();
  await page.getByRole("heading", { name: "Mine" }).waitFor();
});

it("saves once, and keeps what is typed until then", async () => {
  const page = await app.open("/screens");
  expect(await putScreen(page, "typing", { config: { format: 1, cells: cells.slice(0, 1) }, version: 0 })).toBe(201);
  await page.goto(`${app.url}/screen/typing`);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const text = page.getByRole("textbox", { name: "Markdown" });
  await text.fill("# Mine");
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let asked = 0;
  await page.route("**/api/screens/typing", async (route) => {
    asked++;
    await held;
    await route.continue();
  });
  const save = page.getByRole("button", { name: "Save", exact: true });
  await save.dblclick();
  await text.fill("# Mine, and more");
  release();
  await page.getByText("version 2 by dev@localhost").waitFor();
  expect(await text.inputValue()).toBe("# Mine, and more");
  expect(asked).toBe(1);
  await save.click();
  await page.getByText("version 3 by dev@localhost").waitFor();
  await page.getByRole("heading", { name: "Mine, and more" }).waitFor();
  expect(await page.getByRole("dialog", { name: /has saved this screen meanwhile/ }).count()).toBe(0);
});
