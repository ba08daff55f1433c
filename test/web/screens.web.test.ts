/** Screens, and the maps in them. */
import { describe } from "vitest";

import { useApp } from "../helpers/web/app.js";

useApp({ traces: 60 });

describe("screens", async () => {
  await import("./pages/screens.js");
  await import("./pages/screen-saving.js");
});
describe("maps", async () => {
  await import("./pages/maps.js");
});
