// Puts the command line and what it uses into a few files below dist/bundle: loading some three hundred modules takes
// longer than a short query. Programs that import the package get the modules.
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = dirname(fileURLToPath(import.meta.url));
const dir = join(root, "dist", "bundle");

const bundle = await rolldown({ input: join(root, "dist", "src", "bin", "telemetry.js"), platform: "node" });
rmSync(dir, { recursive: true, force: true });
await bundle.write({ dir, format: "esm", entryFileNames: "bin/[name].js", chunkFileNames: "bin/[name]-[hash].js" });
await bundle.close();
