// Builds the application into dist/ and lays a compressed copy beside each file, unless nothing that it is made of has
// changed since: Vite takes several times as long as the compiler.
import { readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, "dist");
const stamp = join(dist, ".built");
const begun = new Date();

if (!isUpToDate()) {
  const { build } = await import("vite");
  rmSync(stamp, { force: true });
  await build({ root, logLevel: "warn" });
  compressAll();
  writeFileSync(stamp, "");
  utimesSync(stamp, begun, begun);
}

function isUpToDate() {
  const builtMs = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isOlder = (path) => (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) < builtMs;
  const inputs = ["package.json", "index.html", "vite.config.js", "bundle.mjs", "../pnpm-lock.yaml"];
  const folders = ["src", "../client/src/shared"];
  return [...inputs, ...folders, ...folders.flatMap(filesOf)].every((name) => isOlder(join(root, name)));
}

function filesOf(folder) {
  return readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name));
}

/** What the server sends to a browser that takes it; small files and those that are compressed stay alone. */
function compressAll() {
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || !/\.(?:js|css|svg|html)$/.test(entry.name) || statSync(path).size < 1024) {
      continue;
    }
    const bytes = readFileSync(path);
    const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
    writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }));
    writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
  }
}
