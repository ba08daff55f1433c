import { defineConfig } from "vitest/config";

import { common } from "./vitest.config.ts";

/** The conformance suite: clients that nobody here wrote, some of which are fetched first. */
export default defineConfig({
  test: {
    ...common,
    include: ["dist/test/**/*.conformance.test.js", "dist/test/routes/flight/clients.e2e.test.js"],
    globalSetup: ["dist/test/helpers/global-setup.js"],
    testTimeout: 120_000,
    hookTimeout: 300_000,
  },
});
