/** The package as it is published: packed, unpacked beside what it depends on, and used from there. */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const run = promisify(execFile);

interface Manifest {
  dependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
  exports: Record<string, unknown>;
}

let directory: string;
let source: string;
let files: string[];
let manifest: Manifest;

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "client-package-"));
  source = path.dirname(createRequire(import.meta.url).resolve("telemetry-service-client/package.json"));
  manifest = JSON.parse(await readFile(path.join(source, "package.json"), "utf8")) as Manifest;
  const { stdout } = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", directory], {
    cwd: source,
  });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  files = packed.files.map((file) => file.path);
  await run("tar", ["-xzf", path.join(directory, packed.filename), "-C", directory]);
  // What a package manager would install beside it, and no more.
  const modules = path.join(directory, "node_modules");
  await cp(path.join(directory, "package"), path.join(modules, "telemetry-service-client"), { recursive: true });
  for (const name of Object.keys(manifest.dependencies)) {
    const link = path.join(modules, name);
    await mkdir(path.dirname(link), { recursive: true });
    await symlink(await realpath(path.join(source, "node_modules", name)), link);
  }
  await writeFile(path.join(directory, "package.json"), '{"type": "module"}');
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** Runs a module in the directory and gives what it prints. */
async function evaluate(code: string): Promise<string> {
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", code], { cwd: directory });
  return stdout.trim();
}

describe("the published package", () => {
  it("holds programs, types, the README and the licence, and nothing else", async () => {
    expect(files).toContain("README.md");
    expect(files).toContain("LICENSE");
    const licence = (folder: string): Promise<string> => readFile(path.join(source, folder, "LICENSE"), "utf8");
    expect(await licence(".")).toBe(await licence(".."));
    expect(files).toContain("dist/src/main.js");
    expect(files).toContain("dist/src/main.d.ts");
    expect(
      files.filter(
        (file) =>
          !/^(?:package\.json|README\.md|LICENSE|dist\/src\/.+(?:\.js|\.d\.ts)|dist\/bundle\/.+\.js)$/u.test(file),
      ),
    ).toEqual([]);
  });

  it("does without the service, and without OpenTelemetry until that is asked for", async () => {
    expect(Object.keys(manifest.dependencies)).not.toContain("telemetry-service");
    const names = await evaluate(
      'const m = await import("telemetry-service-client"); console.log(Object.keys(m).sort().join())',
    );
    expect(names).toContain("OidcAuthProvider");
    expect(names).toContain("connect");
    const missing = await evaluate(
      'const { configureTelemetry } = await import("telemetry-service-client/telemetry");' +
        'console.log(await configureTelemetry({ url: "http://localhost:1" }).catch((error) => error.message))',
    );
    expect(missing).toMatch(/^configureTelemetry needs OpenTelemetry: npm install @opentelemetry\//u);
  });

  it.each(["./otlp", "./cli", "./shared/loopback", "./package.json"])("exports %s", async (name) => {
    const specifier = `telemetry-service-client${name.slice(1)}`;
    const attributes = name.endsWith(".json") ? ', { with: { type: "json" } }' : "";
    expect(await evaluate(`console.log(typeof await import("${specifier}"${attributes}))`)).toBe("object");
  });

  it("runs as a command", async () => {
    const program = path.join(
      directory,
      "node_modules",
      "telemetry-service-client",
      "dist",
      "bundle",
      "bin",
      "telemetry.js",
    );
    expect((await run(process.execPath, [program, "--version"])).stdout).toMatch(/^telemetry \d+\.\d+\.\d+\n$/u);
  });
});
