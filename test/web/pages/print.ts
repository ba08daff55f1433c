/** Pages on paper: without navigation and tools, in light colours, as long as they are, with few rows of long tables. */
import type { Page } from "playwright-core";
import { expect, it } from "vitest";

import { callApi } from "../../helpers/web/admin-app.js";
import { screenshot, sharedApp } from "../../helpers/web/app.js";
import { shopCells } from "../../helpers/web/shop-cells.js";

const app = sharedApp();

/** Pixels of A4 between margins of a centimetre. */
const paper = { width: 718, height: 1047 };

/** Fails for a page that is not fit for paper. @returns the number of its pages */
async function printed(page: Page, name: string): Promise<number> {
  await expect.poll(() => page.locator("[aria-busy=true]").count()).toBe(0);
  await page.emulateMedia({ media: "print" });
  await page.setViewportSize(paper);
  expect(await page.getByRole("navigation").isVisible()).toBe(false);
  expect(await page.locator("main button:has(> svg):visible").count()).toBe(0);
  expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(255, 255, 255)");
  const cut: readonly string[] = await page.evaluate(
    `[...document.querySelectorAll("html, body, body *")]
      .filter((element) => element.clientHeight > 1 && element.scrollHeight > element.clientHeight + 2)
      .filter((element) => getComputedStyle(element).overflowY !== "visible")
      .map((element) => element.tagName + "." + element.className)`,
  );
  expect(cut).toEqual([]);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(paper.width);
  await screenshot(page, `print-${name}`);
  const pdf = await page.pdf({ format: "A4" });
  return pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0;
}

it("prints a screen to its end, and of a long table the rows in view", async () => {
  const page = await app.open("/screens", { theme: "dark" });
  const long = {
    kind: "table",
    id: "long",
    title: "Long",
    sql: "SELECT range AS n, 'word ' || range AS t FROM range(5000)",
  };
  const config = {
    format: 1,
    cells: [...shopCells("# Shop"), long, { kind: "markdown", id: "end", text: "The end." }],
  };
  await callApi(page, "PUT", "api/screens/printed", { config, version: 0 });
  await page.goto(`${app.url}/screen/printed`);
  const rows = page.getByRole("grid", { name: "Long" }).getByRole("row");
  await rows.nth(20).waitFor();
  const pages = await printed(page, "screen");
  expect(pages).toBeGreaterThan(1);
  expect(pages).toBeLessThan(12);
  expect(await rows.count()).toBeLessThan(250);
  await page.locator("[data-says*='of 5,000 rows']").waitFor();
  await page.getByText("The end.").waitFor();
  await page.locator("header [data-says]").waitFor();
});

it.each([
  ["overview", "/", "Latest errors"],
  ["service", "/services/checkout", "Operations"],
  ["audit", "/admin/audit", "Entries"],
])("prints the page %s", async (name, path, table) => {
  const page = await app.open(path);
  await callApi(page, "POST", "api/groups", { name: `printed-${name}` });
  await page.reload();
  const rows = page.getByRole("grid", { name: table }).getByRole("row");
  await rows.nth(1).waitFor();
  expect(await printed(page, name)).toBeGreaterThan(0);
  expect(await rows.nth(1).isVisible()).toBe(true);
});

it("draws charts for paper in light colours, and as they were afterwards", async () => {
  const page = await app.open("/", { theme: "dark" });
  await page.locator(".uplot canvas").first().waitFor();
  /** Whether the texts of its axes have the colour that such texts have in the theme of now. */
  const hasColourOfNow = (): Promise<boolean> =>
    page.evaluate(`(() => {
      const probe = document.body.appendChild(document.createElement("span"));
      probe.style.color = "var(--text-muted)";
      const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
      probe.remove();
      const canvas = document.querySelector(".uplot canvas");
      // A copy: the browser warns of canvases that are read again and again.
      const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, 0, 0);
      const { data } = context.getImageData(0, 0, copy.width, copy.height);
      for (let at = 0; at < data.length; at += 4) {
        if (wanted.every((part, place) => data[at + place] === part) && data[at + 3] === 255) return true;
      }
      return false;
    })()`);
  await expect.poll(hasColourOfNow).toBe(true);
  await page.emulateMedia({ media: "print" });
  await expect.poll(hasColourOfNow).toBe(true);
  expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(255, 255, 255)");
  await page.emulateMedia({ media: "screen" });
  await expect.poll(hasColourOfNow).toBe(true);
});

it("prints a trace with the span that is open", async () => {
  const page = await app.open("/traces?filter=service_name=gateway&order=slowest");
  await page.getByRole("grid", { name: "Traces" }).getByRole("row").nth(1).waitFor();
  await page.getByRole("grid", { name: "Traces" }).press("Enter");
  const spans = page.getByRole("treegrid", { name: "Spans" }).getByRole("row");
  await spans.first().click();
  await page.getByRole("complementary").waitFor();
  await printed(page, "trace");
  expect(await spans.first().isVisible()).toBe(true);
  expect(await page.getByRole("complementary").isVisible()).toBe(true);
});
