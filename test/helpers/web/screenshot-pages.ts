/** Every page of which there is a picture in docs/screenshots. A page adds itself here. */
import type { Page } from "playwright-core";

import { callApi } from "./admin-app.js";
import { shopCells } from "./shop-cells.js";
import type { Shop } from "./shop-telemetry.js";

/** A picture in each theme. */
interface PictureOf {
  /** Of the file: `<name>-<theme>.png`. */
  readonly name: string;
  /** Below the base path, over the telemetry of a shop. */
  readonly path: string | ((shop: Shop) => string);
  /** `admin` unless given. */
  readonly as?: "admin" | "guest";
  /** Brings the page to what the picture shows, and waits for it. */
  readonly ready: (page: Page) => Promise<void>;
}

const runSql = async (page: Page): Promise<void> => {
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/rows?, .* in/).waitFor();
};

/** Waits for a page that shows all that it has by itself. */
const loaded = async (page: Page): Promise<void> => {
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.waitForLoadState("networkidle");
};

const sqlPath = (sql: string, more = ""): string => `/sql?${new URLSearchParams({ sql }).toString()}${more}`;

/** Traces whose root has that name. */
function tracesOf(shop: Shop, name: string): readonly string[] {
  const found = /"traceId":"(\w{32})","spanId":"\w{16}","name":"([^"]*)"/g;
  return shop.requests
    .filter(({ path }) => path === "/v1/traces")
    .flatMap(({ body }) => [...JSON.stringify(body).matchAll(found)])
    .filter((root) => root[2] === name)
    .map((root) => root[1] ?? "");
}

const welcome = "**The shop**: who logs what, by level.";

export const pictures: readonly PictureOf[] = [
  {
    name: "overview",
    path: "/",
    ready: async (page) => {
      await page.getByRole("grid", { name: "Services" }).getByText("checkout").waitFor();
      await page.getByRole("grid", { name: "Latest errors" }).waitFor();
    },
  },
  {
    name: "logs",
    path: "/logs?filter=service_name!%3Dtelemetry-monolith",
    ready: async (page) => {
      await page.getByRole("grid").first().getByText("checkout").first().waitFor();
    },
  },
  {
    name: "traces",
    path: "/traces?order=slowest",
    ready: async (page) => {
      await page.getByRole("grid", { name: "Traces" }).getByRole("row").nth(1).waitFor();
    },
  },
  {
    name: "trace",
    path: ({ traceIds }) => `/traces/${traceIds[0] ?? ""}`,
    ready: async (page) => {
      await page.getByRole("treegrid", { name: "Spans" }).getByRole("row").first().waitFor();
    },
  },
  {
    name: "compare",
    path: (shop) => {
      const found = tracesOf(shop, "POST /checkout");
      // Each has spans that the other has not.
      return `/traces/compare?a=${found[2] ?? ""}&b=${found[6] ?? ""}`;
    },
    ready: async (page) => {
      await page.getByRole("grid", { name: "Spans of both traces" }).getByRole("row").nth(1).waitFor();
    },
  },
  {
    name: "services",
    path: "/services",
    ready: async (page) => {
      await page.getByRole("grid", { name: "Services" }).getByText("checkout", { exact: true }).waitFor();
    },
  },
  {
    name: "service-map",
    path: "/services?view=map",
    ready: async (page) => {
      await page.getByRole("link", { name: /^gateway calls checkout/ }).waitFor();
    },
  },
  {
    name: "service",
    path: "/services/checkout",
    ready: async (page) => {
      await page.getByRole("grid", { name: "Called by" }).getByText("gateway").waitFor();
    },
  },
  {
    name: "metrics",
    path: `/metrics?${[
      ["counter", "rate", "service_name", "http.server.requests"],
      ["histogram", "p95", "http.route", "http.server.request.duration"],
    ]
      .map((chart) => `chart=${encodeURIComponent(JSON.stringify(chart))}`)
      .join("&")}`,
    ready: async (page) => {
      await page.getByRole("region", { name: "http.server.requests" }).getByText("checkout").waitFor();
      await page.getByRole("region", { name: "http.server.request.duration" }).getByText("/checkout").waitFor();
      await page.getByRole("grid", { name: "Metrics" }).waitFor();
    },
  },
  {
    name: "heatmap",
    path: `/metrics?q=duration&${[
      ["histogram", "heatmap", "", "http.server.request.duration"],
      ["exponential_histogram", "heatmap", "", "db.client.operation.duration"],
    ]
      .map((chart) => `chart=${encodeURIComponent(JSON.stringify(chart))}`)
      .join("&")}`,
    ready: async (page) => {
      for (const name of ["http.server.request.duration", "db.client.operation.duration"]) {
        await page.getByRole("group", { name: `Table of Heatmap of ${name}` }).waitFor();
      }
    },
  },
  {
    name: "processes",
    path: "/processes",
    ready: async (page) => {
      await page.getByRole("grid", { name: "Processes" }).getByText("checkout").waitFor();
    },
  },
  {
    name: "administration",
    path: "/admin",
    ready: async (page) => {
      await page.getByRole("link", { name: /Usage/ }).first().waitFor();
    },
  },
  {
    name: "retention",
    path: "/admin/retention",
    ready: async (page) => {
      await page.getByText(/^Rows are kept for/).waitFor({ timeout: 60_000 });
      await page.evaluate(`(async () => {
        for (const [view, days, audience] of [["spans", 30, null], ["log_entries", 90, null], ["log_entries", 0, "audit"]]) {
          const body = JSON.stringify({ view, days, audience });
          await fetch("/api/retention", { method: "PUT", headers: { "content-type": "application/json" }, body });
        }
      })()`);
      await page.getByRole("button", { name: "Ask again" }).click();
      await page.getByRole("gridcell", { name: "audit" }).click();
      await page.getByRole("complementary").waitFor();
    },
  },
  {
    name: "erasure",
    path: "/admin/erasure?new=1",
    ready: async (page) => {
      const form = page.getByRole("form", { name: "Erase rows" });
      await form.getByLabel("Audience").fill("public");
      await form.getByLabel("Service", { exact: true }).fill("checkout-old");
      await form.getByRole("button", { name: "Erase…" }).click();
      await page.getByRole("button", { name: "Erase them for good" }).click();
      await page.getByRole("complementary").getByText("Ended").waitFor();
      await page.getByRole("gridcell", { name: "done" }).waitFor({ timeout: 60_000 });
    },
  },
  {
    name: "sql",
    path: sqlPath(
      "SELECT time, service_name, level_name, msg, attr(properties, 'http.route') AS route\nFROM log_entries\nWHERE service_name <> 'telemetry-monolith'\nORDER BY time DESC",
    ),
    ready: async (page) => {
      await runSql(page);
      const grid = page.getByRole("grid", { name: "Result" });
      await grid.press("j");
      await grid.press("Enter");
      await page.getByRole("complementary").waitFor();
    },
  },
  {
    name: "sql-chart",
    path: sqlPath(
      "SELECT date_bin(INTERVAL 1 MINUTE, time) AS time, service_name,\n  quantile_cont(duration_ms, 0.95) AS p95\nFROM spans\nWHERE service_name <> 'telemetry-monolith'\nGROUP BY ALL\nORDER BY time",
      "&view=chart&unit=milliseconds",
    ),
    ready: async (page) => {
      await runSql(page);
      await page.getByRole("button", { name: "checkout" }).waitFor();
    },
  },
  {
    name: "start",
    path: "/start?language=python",
    ready: async (page) => {
      await page.getByRole("button", { name: "Mint a key" }).waitFor();
      await page.getByText("opentelemetry-distro").waitFor();
    },
  },
  ...[
    "ingestion-keys",
    "analytics-keys",
    "groups",
    "usage",
    "audit",
    "query-denials",
    "data-sources",
    "maps",
    "export-screens",
    "import-screens",
    "lake-checks",
  ].map((name) => ({ name, path: `/admin/${name}`, ready: loaded })),
  { name: "audiences", path: "/audiences", ready: loaded },
  { name: "screens", path: "/screens", ready: loaded },
  {
    name: "screen",
    path: "/screens",
    ready: async (page) => {
      const { body } = await callApi(page, "GET", "api/screens");
      if (!JSON.stringify(body).includes('"Shop"')) {
        await callApi(page, "PUT", "api/screens/Shop", {
          config: { format: 1, cells: shopCells(welcome) },
          version: 0,
        });
      }
      await page.goto(new URL("screen/Shop", page.url()).href);
      await page.getByRole("region", { name: "Services" }).getByText("checkout").waitFor();
      await page.getByRole("region", { name: "Records by level" }).getByRole("img").first().waitFor();
    },
  },
  {
    name: "login",
    path: "/",
    ready: async (page) => {
      await page.context().clearCookies();
      await page.goto(new URL("auth/login?return_to=/", page.url()).href);
      await page.getByRole("button", { name: "dev@localhost" }).waitFor();
    },
  },
];
