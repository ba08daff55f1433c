import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

import { useRunDirectory } from "./test/helpers/run-directory.ts";

useRunDirectory();

/** Starts with the files and kinds that take longest, so that no core is left idle at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const kinds = ["/explore.web.", "/pages.web.", ".e2e.", ".property."];
    const place = ({ moduleId }: TestSpecification): number => {
      const found = kinds.findIndex((kind) => moduleId.includes(kind));
      return found === -1 ? kinds.length : found;
    };
    return (await super.sort(files)).toSorted((a, b) => place(a) - place(b));
  }
}

/**
 * What every project shares. The tests that run are the compiled ones (`tsc` emits everything to `dist/`):
 * worker threads load the very files that production loads, and Node.js runs them without a transform.
 */
export const common = {
  // Taps what servers let out: a run in which a minted key got out fails.
  setupFiles: ["dist/test/helpers/cleartext/cleartext-setup.js"],
  // Processes, not threads: the native addons (uWebSockets.js, DuckDB) and the worker pools under test
  // want the main thread of a process of their own.
  pool: "forks" as const,
  // On two cores, which the database and the servers under test share. Half of a test is waiting.
  maxWorkers: 4,
  sequence: { sequencer: LongestFirst },
  execArgv: ["--enable-source-maps"],
  server: {
    // Our own code runs as it is, too: `new URL("./x.js", import.meta.url)` names the real file.
    deps: { external: [/\/dist\/(?:src|scripts|bench)\//u] },
  },
  testTimeout: 180_000,
  hookTimeout: 180_000,
  teardownTimeout: 30_000,
  // What is polled for comes in its own time on a busy machine.
  expect: { poll: { timeout: 60_000 } },
  // A promise nobody waits for is a defect, in a test as anywhere.
  dangerouslyIgnoreUnhandledErrors: false,
  passWithNoTests: false,
  reporters: ["default"],
};

// Of the web application, which nothing but Vite compiles, the sources run.
const unitTests = ["dist/test/**/*.unit.test.js", "client/dist/test/**/*.unit.test.js", "web/src/**/*.unit.test.ts"];
const conformanceTests = "dist/test/**/*.conformance.test.js";

const webTests = "dist/test/**/*.web.test.js";

/**
 * `unit` needs nothing but Node.js; `system` has a Postgres that its tests share; `web` looks at the web application
 * with a browser. Each of its files starts a monolith, so pages that leave each other alone share a file.
 */
export default defineConfig({
  test: {
    ...common,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: unitTests,
          globalSetup: ["dist/test/helpers/cleartext/cleartext-watch.js"],
          // They leave nothing behind, and a process for each would take longer than most of them.
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: "system",
          // They stop what they start; a process for each took a quarter of the whole run.
          isolate: false,
          include: ["dist/test/**/*.test.js"],
          exclude: [...unitTests, conformanceTests, webTests],
          globalSetup: ["dist/test/helpers/global-setup.js"],
        },
      },
      {
        extends: true,
        test: {
          name: "web",
          include: [webTests],
          globalSetup: ["dist/test/helpers/cleartext/cleartext-watch.js"],
        },
      },
    ],
  },
});
