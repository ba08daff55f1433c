import { defineConfig, mergeConfig } from "vitest/config";

import base from "./vitest.config.ts";

/** The conformance suite: clients that nobody here wrote, some of which are fetched first. */
export default mergeConfig(
  { ...base, test: { ...base.test, include: [] } },
  defineConfig({
    test: {
      include: ["dist/test/conformance/*.conformance.js", "dist/test/e2e/flight-clients.test.js"],
      testTimeout: 120_000,
      hookTimeout: 300_000,
    },
  }),
);
