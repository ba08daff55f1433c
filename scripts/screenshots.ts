/**
 * Makes docs/screenshots/<page>-<theme>.png of every page of the web application, from a monolith in development mode with
 * the telemetry of a shop. Pages are listed in test/helpers/web/screenshot-pages.ts.
 *
 * Usage: node dist/scripts/screenshots.js [--out directory] [--width 1280] [--height 800] [page...]
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { startApp } from "../test/helpers/web/app-browser.js";
import { until } from "../test/helpers/until.js";
import { pictures } from "../test/helpers/web/screenshot-pages.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: "string", default: fileURLToPath(new URL("../../docs/screenshots", import.meta.url)) },
    width: { type: "string", default: "1280" },
    height: { type: "string", default: "800" },
  },
});
const unknown = positionals.filter((name) => !pictures.some((picture) => picture.name === name));
if (unknown.length > 0) {
  throw new Error(`no page ${unknown.join(", ")}; there are ${pictures.map(({ name }) => name).join(", ")}`);
}
await mkdir(values.out, { recursive: true });
const app = await startApp({ traces: 400 });
try {
  for (const { name, path, as = "admin", ready } of pictures) {
    if (positionals.length > 0 && !positionals.includes(name)) {
      continue;
    }
    for (const theme of ["light", "dark"] as const) {
      const size = { width: Number(values.width), height: Number(values.height) };
      const page = await app.open(typeof path === "string" ? path : path(app.shop), { as, theme, ...size });
      await ready(page);
      // Nothing is on its way any more, and nothing is pointed at.
      await page.mouse.move(0, 0);
      await until(async () => (await page.locator("[aria-busy=true], [data-running=true]").count()) === 0);
      await page.screenshot({ path: join(values.out, `${name}-${theme}.png`) });
      console.log(`${name}-${theme}.png`);
      await app.endTest();
    }
  }
} finally {
  await app.stop();
}
