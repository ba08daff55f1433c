import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";

const repository = fileURLToPath(new URL("../../../", import.meta.url));

let workspace: string;
beforeEach(() => {
  workspace = mkdtempSync(path.join(tmpdir(), "build-"));
  mkdirSync(path.join(workspace, "scripts"));
  mkdirSync(path.join(workspace, "src/inner"), { recursive: true });
  copyFileSync(path.join(repository, "scripts/build.mjs"), path.join(workspace, "scripts/build.mjs"));
  symlinkSync(path.join(repository, "node_modules"), path.join(workspace, "node_modules"));
  const compilerOptions = {
    module: "nodenext",
    target: "es2023",
    // The smallest: reading a newer one takes longer than all else.
    lib: ["es5"],
    types: [],
    rootDir: ".",
    outDir: "dist",
    incremental: true,
    tsBuildInfoFile: "dist/.tsbuildinfo",
  };
  write("tsconfig.json", JSON.stringify({ compilerOptions, include: ["src"], exclude: ["src/**/assembly"] }));
  write("package.json", '{"type": "module", "engines": {"node": ">=20.19"}}');
  write("src/one.ts", "export const one: number = 1;\n");
  write("src/inner/two.ts", "export const two: number = 2;\n");
  age();
});
afterEach(() => rmSync(workspace, { recursive: true }));

function write(file: string, text: string): void {
  writeFileSync(path.join(workspace, file), text);
}

/** As if everything had been written a while ago. */
function age(): void {
  const before = new Date(Date.now() - 10_000);
  for (const file of ["src/one.ts", "src/inner/two.ts", "src/inner", "src", "scripts/build.mjs", "scripts", "."]) {
    if (existsSync(path.join(workspace, file))) {
      utimesSync(path.join(workspace, file), before, before);
    }
  }
  for (const file of ["tsconfig.json", "package.json"]) {
    utimesSync(path.join(workspace, file), before, before);
  }
}

/** Whether it compiled: the compiler writes a file again that is gone. */
function build(): { readonly status: number | null; readonly compiled: boolean } {
  rmSync(path.join(workspace, "dist/.tsbuildinfo"), { force: true });
  const { status } = spawnSync(process.execPath, [path.join(workspace, "scripts/build.mjs")]);
  return { status, compiled: existsSync(path.join(workspace, "dist/.tsbuildinfo")) };
}

it("compiles, and leaves the compiler alone as long as nothing changed", () => {
  expect(build()).toEqual({ status: 0, compiled: true });
  expect(existsSync(path.join(workspace, "dist/src/inner/two.js"))).toBe(true);
  age(); // making dist/ changed the folder around it
  expect(build()).toEqual({ status: 0, compiled: false });
});

it("compiles again after a change, an addition and a removal, and as long as something is wrong", () => {
  build();
  age();
  write("src/inner/two.ts", "export const two: number = 'two';\n");
  expect(build().status).not.toBe(0);
  age();
  expect(build().status).not.toBe(0);
  write("src/inner/two.ts", "export const two: number = 3;\n");
  expect(build()).toEqual({ status: 0, compiled: true });
  age();
  write("src/inner/three.ts", "export const three: number = 3;\n");
  age();
  utimesSync(path.join(workspace, "src/inner"), new Date(), new Date());
  expect(build()).toEqual({ status: 0, compiled: true });
  age();
  rmSync(path.join(workspace, "src/inner/two.ts"));
  expect(build()).toEqual({ status: 0, compiled: true });
  expect(existsSync(path.join(workspace, "dist/src/inner/two.js"))).toBe(false);
});

it("compiles AssemblyScript, and says what is wrong with it", () => {
  mkdirSync(path.join(workspace, "src/inner/assembly"));
  write("src/inner/assembly/sum.ts", "export function sum(a: i32, b: i32): i32 {\n  return a + b;\n}\n");
  expect(build()).toEqual({ status: 0, compiled: true });
  expect(existsSync(path.join(workspace, "dist/src/inner/assembly/sum.wasm"))).toBe(true);
  write("src/inner/assembly/sum.ts", "export function sum(a: i32, b: i32): i32 {\n  return a + c;\n}\n");
  expect(build().status).not.toBe(0);
  rmSync(path.join(workspace, "src/inner/assembly"), { recursive: true });
  expect(build()).toEqual({ status: 0, compiled: true });
  expect(existsSync(path.join(workspace, "dist/src/inner/assembly/sum.wasm"))).toBe(false);
});

it("compiles again where what it made is gone", () => {
  build();
  age();
  rmSync(path.join(workspace, "dist"), { recursive: true });
  age();
  expect(build()).toEqual({ status: 0, compiled: true });
});

it.each(["9999.0", `${process.versions.node.split(".")[0]}.9999`])("says that it needs Node.js %s", (needed) => {
  write("package.json", `{"type": "module", "engines": {"node": ">=${needed}"}}`);
  const { status, stderr } = spawnSync(process.execPath, [path.join(workspace, "scripts/build.mjs")]);
  const here = `${process.execPath} is ${process.versions.node}`;
  expect([status, stderr.toString()]).toEqual([1, `This needs Node.js ${needed} or newer; ${here}.\n`]);
});
