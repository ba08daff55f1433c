/** The shell, and the pages that lead further, over one shop. */
import { describe } from "vitest";

import { useApp } from "../helpers/web/app.js";

useApp({ traces: 200 });

describe("shell", async () => {
  await import("./pages/shell.js");
});
describe("overview", async () => {
  await import("./pages/overview.js");
});
describe("processes", async () => {
  await import("./pages/processes.js");
});
describe("services", async () => {
  await import("./pages/services.js");
});
describe("start", async () => {
  await import("./pages/start.js");
});
describe("print", async () => {
  await import("./pages/print.js");
});
