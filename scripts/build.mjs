// Compiles to dist/ (incremental: next to nothing when no source changed) and removes compiled files
// whose source is gone, so that a deleted test or worker cannot go on running.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const tsc = join(
  dirname(createRequire(import.meta.url).resolve("typescript/package.json")),
  "bin",
  "tsc",
);
const dist = join(root, "dist");

// Without any output the incremental state must not claim that everything is built.
if (!existsSync(join(dist, "src"))) rmSync(join(dist, ".tsbuildinfo"), { force: true });

const result = spawnSync(process.execPath, [tsc, "-p", join(root, "tsconfig.json")], {
  stdio: "inherit",
});
if (result.status !== 0) process.exit(result.status ?? 1);

for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !/\.js(\.map)?$/.test(entry.name)) continue;
  const path = join(entry.parentPath, entry.name);
  const source = join(root, relative(dist, path)).replace(/\.js(\.map)?$/, ".ts");
  if (!existsSync(source)) rmSync(path);
}
