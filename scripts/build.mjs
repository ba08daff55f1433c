// Compiles the packages of the workspace, each to its dist/ (incremental: little when few sources changed, nothing when
// none did), with its AssemblyScript, and removes compiled files whose source is gone, so that a deleted test or worker
// cannot go on running.
// With --noEmit it checks the service's types only; those that it needs of the other packages are in their dist/.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const workspace = join(dirname(fileURLToPath(import.meta.url)), "..");
// An older Node.js would end with the name of what it lacks, here or in a program.
const { engines } = JSON.parse(readFileSync(join(workspace, "package.json"), "utf8"));
const needed = engines.node.replace(">=", "");
if (needed.localeCompare(process.versions.node, "en", { numeric: true }) > 0) {
  process.stderr.write(`This needs Node.js ${needed} or newer; ${process.execPath} is ${process.versions.node}.\n`);
  process.exit(1);
}

const checkOnly = process.argv.includes("--noEmit");
const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc");

const asc = join(dirname(createRequire(import.meta.url).resolve("assemblyscript/package.json")), "bin", "asc.js");
/** Memory comes from JavaScript, nothing is allocated in it. */
const assemblyOptions = "--config none --runtime stub --importMemory -O3 --noAssert --enable simd".split(" ");

/** Its time is when the last compilation began that found nothing wrong. */
const stamp = join(workspace, "dist", ".built");
const begun = new Date();

// The service comes last: it may use the other packages, and they never use it.
const packages = readdirSync(workspace).filter((name) => existsSync(join(workspace, name, "package.json")));
const roots = [...packages.map((name) => join(workspace, name)), workspace].filter((root) =>
  existsSync(join(root, "tsconfig.json")),
);
if (!checkOnly && roots.every((root) => existsSync(join(root, "dist"))) && isUpToDate()) {
  process.exit(0);
}
if (!checkOnly) {
  rmSync(stamp, { force: true });
}
for (const root of roots) {
  compile(root);
  assemble(root);
  if (!checkOnly) {
    removeOrphans(root);
    bundle(root);
  }
}

if (!checkOnly) {
  writeFileSync(stamp, "");
  utimesSync(stamp, begun, begun);
}

/** Whether nothing was changed, added or removed since the stamp, as far as times tell: those of folders as well. */
function isUpToDate() {
  const builtMs = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isOlder = (path) => statSync(path).mtimeMs < builtMs;
  const isFolderOlder = (folder) =>
    isOlder(folder) &&
    readdirSync(folder, { withFileTypes: true }).every((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) {
        return /^(?:\.|node_modules$|dist$|data$)/.test(entry.name) || isFolderOlder(path);
      }
      return !/\.(?:tsx?|m?js|json|yaml|css|html|svg)$/.test(entry.name) || isOlder(path);
    });
  return isFolderOlder(workspace);
}

function compile(root) {
  const dist = join(root, "dist");
  // Without any output the incremental state must not claim that everything is built.
  if (!checkOnly && !existsSync(join(dist, "src"))) {
    rmSync(join(dist, ".tsbuildinfo"), { force: true });
  }
  const options = checkOnly && root === workspace ? ["--noEmit"] : [];
  run(tsc, "-p", join(root, "tsconfig.json"), ...options);
}

function run(...args) {
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
  if (status !== 0) {
    process.exit(status ?? 1);
  }
}

/** Compiles AssemblyScript, each `assembly/NAME.ts` to `assembly/NAME.wasm` of dist/. */
function assemble(root) {
  const source = join(root, "src");
  const files = existsSync(source) ? readdirSync(source, { recursive: true }) : [];
  for (const file of files.filter((name) => /(?:^|[/\\])assembly[/\\][^/\\]+\.ts$/.test(name))) {
    const output = join(root, "dist", "src", file.replace(/\.ts$/, ".wasm"));
    const result = checkOnly ? ["--noEmit"] : ["--outFile", output];
    run(asc, join(source, file), "--baseDir", root, ...assemblyOptions, ...result);
  }
}

/** Lets a package make of its compiled files what else it publishes. */
function bundle(root) {
  const script = join(root, "bundle.mjs");
  if (existsSync(script)) {
    run(script);
  }
}

function removeOrphans(root) {
  const compiled = /\.(?:js(?:\.map)?|d\.ts|wasm)$/;
  const dist = join(root, "dist");
  // Where something else makes dist/ and the compiler only checks types, nothing in it has a source beside it.
  if (!existsSync(join(dist, ".tsbuildinfo"))) {
    return;
  }
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !compiled.test(entry.name)) {
      continue;
    }
    const path = join(entry.parentPath, entry.name);
    const source = join(root, relative(dist, path)).replace(compiled, "");
    if (!existsSync(`${source}.ts`) && !existsSync(`${source}.tsx`)) {
      rmSync(path);
    }
  }
}
