/** Logs, metrics and SQL, over one shop. */
import { describe } from "vitest";

import { useApp } from "../helpers/web/app.js";

useApp({ traces: 200 });

describe("logs", async () => {
  await import("./pages/logs.js");
});
describe("metrics", async () => {
  await import("./pages/metrics.js");
});
describe("sql", async () => {
  await import("./pages/sql.js");
});
