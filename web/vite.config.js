import { defineConfig } from "vite";

export default defineConfig({
  // Everything finds its neighbours from where it is itself, so that one build serves every base path.
  base: "./",
  build: {
    // Node.js 20.19 builds it, current browsers run it.
    target: "es2023",
    // A data: address would need a hole in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
    rolldownOptions: {
      onLog(level, log, report) {
        // "use client" is for servers that render; nothing here does.
        if (log.code !== "MODULE_LEVEL_DIRECTIVE") {
          report(level, log);
        }
      },
    },
    chunkSizeWarningLimit: 1024,
  },
  worker: { format: "es" },
  // `node scripts/build.mjs`, a running monolith, and then `pnpm --dir web exec vite` for work on a page.
  server: { proxy: { "/api": "http://127.0.0.1:3000", "/auth": "http://127.0.0.1:3000" } },
});
