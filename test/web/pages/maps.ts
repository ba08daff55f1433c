/** Cells of screens that place rows in the scene of a map. */
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";

import { expectAccessible, screenshot, sharedApp } from "../../helpers/web/app.js";
import { glbOf, hallGlb } from "../../helpers/web/glb.js";

const app = sharedApp();

const points = `SELECT ((i % 7) - 3) * 3.0 AS x, 2.6 AS y, (i // 7 - 2) * 2.0 AS z, 'sensor ' || i AS label, 15 + i AS value
FROM range(35) AS rows(i) UNION ALL SELECT NULL, 0, 0, 'nowhere', 1`;
const middle = "SELECT 0::DOUBLE AS x, 1.1::DOUBLE AS y, 0::DOUBLE AS z, 'the middle' AS label, 42 AS value";
const external = { asset: { version: "2.0" }, buffers: [{ uri: "http://elsewhere.test/a.bin", byteLength: 4 }] };

beforeAll(async () => {
  const page = await app.open("/screens");
  await put(page, "maps/hall.glb", hallGlb());
  await put(page, "maps/outside.glb", glbOf(external));
  for (const [name, file, sql] of [
    ["hall", "hall.glb", points],
    ["middle", "hall.glb", middle],
    ["outside", "outside.glb", middle],
    ["flat", "hall.glb", "SELECT 1 AS x, 2 AS y"],
    ["gone", "gone.glb", middle],
  ] as const) {
    const cells = [{ kind: "map", id: "m", title: "Hall", file, sql }];
    await put(page, `screens/${name}`, JSON.stringify({ config: { format: 1, cells }, version: 0 }));
  }
});

async function put(page: Page, path: string, body: Buffer | string): Promise<void> {
  const type = typeof body === "string" ? "application/json" : "model/gltf-binary";
  const status = await page.evaluate(
    async ([where = "", base64 = "", type = ""]) => {
      const body = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
      const response = await fetch(where, { method: "PUT", headers: { "content-type": type }, body });
      return response.status;
    },
    [`/api/${path}`, Buffer.from(body).toString("base64"), type],
  );
  expect(status).toBe(201);
}

it.each(["light", "dark"] as const)("places rows in the scene in the %s theme", async (theme) => {
  const page = await app.open("/screen/hall", { theme });
  const cell = page.getByRole("region", { name: "Hall" });
  await cell.getByText("35 points, 1 row without a place").waitFor();
  await page.locator("[data-drawn=true]").waitFor();
  expect(await cell.getByRole("button", { name: "Show as a table" }).count()).toBe(1);
  await expectAccessible(page);
  await screenshot(page, `map-${theme}`);
});

it("turns by keys, says what is below the pointer, and has a table", async () => {
  const page = await app.open("/screen/middle");
  const scene = page.getByRole("img", { name: /Scene with points/ });
  await scene.focus();
  await page.locator("[data-drawn=true]").waitFor();
  const before = await scene.screenshot();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(async () => before.equals(await scene.screenshot())).toBe(false);
  await page.keyboard.press("Home");
  await expect.poll(async () => before.equals(await scene.screenshot())).toBe(true);
  const box = await scene.boundingBox();
  const said = page.getByText("the middle · 42 · at 0, 1.1, 0");
  // Straight down over the middle, in steps that cannot miss a point.
  for (let y = 20; y < (box?.height ?? 0) && !(await said.isVisible()); y += 5) {
    await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) / 2, (box?.y ?? 0) + y);
  }
  await said.waitFor();
  await page.getByRole("button", { name: "Show as a table" }).click();
  await page.getByRole("grid", { name: "Hall" }).getByText("the middle").waitFor();
  await expectAccessible(page);
});

it("says why there is no scene", async () => {
  const page = await app.open("/screen/outside", { allow: /404/ });
  await page.getByText("names files or addresses outside itself").waitFor();
  await page.goto(`${app.url}/screen/flat`);
  await page.getByText("the query has no z").waitFor();
  await page.goto(`${app.url}/screen/gone`);
  await page.getByText("The map gone.glb cannot be loaded").waitFor();
  await page.addInitScript("HTMLCanvasElement.prototype.getContext = () => null");
  await page.goto(`${app.url}/screen/middle`);
  await page.getByText("WebGL 2 is missing or turned off. The points are in the table.").waitFor();
  expect(await page.locator("canvas").count()).toBe(0);
});

it("is made in the editor of a screen, at 360 pixels, too", async () => {
  const page = await app.open("/screen/flat", { width: 360 });
  await page.getByRole("button", { name: "Edit" }).click();
  const editor = page.getByRole("region", { name: /^Map:/ });
  await editor.getByRole("combobox", { name: "Map" }).click();
  await page.getByRole("option", { name: "none" }).click();
  await page.goto(`${app.url}/screen/hall`);
  await page.locator("[data-drawn=true]").waitFor();
  await screenshot(page, "map-360");
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
});
