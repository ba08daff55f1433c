/** Pages whose answers come late, in another order, or not at all, and what people do until then. */
import { expect, it } from "vitest";

import { useApp } from "../helpers/web/app.js";

const app = useApp({ traces: 60 });

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
