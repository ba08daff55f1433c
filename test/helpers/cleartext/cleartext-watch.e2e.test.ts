/** The watch over minted keys (test/helpers/cleartext/cleartext-watch.ts) sees every way out, and fails the run. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const vitest = path.join(
  path.dirname(createRequire(import.meta.url).resolve("vitest/package.json")),
  "vitest.mjs",
);

/** A vitest run of one passing test in which a key gets out by `way`. */
async function run(way: string): Promise<{ code: number | null; output: string }> {
  const config = "dist/test/helpers/cleartext/cleartext-plant-config.js";
  const child = spawn(process.execPath, [vitest, "run", "--config", config], {
    cwd: root,
    env: { PATH: process.env["PATH"], PLANT: way, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
  }
  const [code] = (await once(child, "close")) as [number | null];
  return { code, output };
}

it.each(["nothing", "mint"])(
  "a run in which %s shows a key, and nothing else does, passes",
  async (way) => {
    const { code, output } = await run(way);
    expect([code, output]).toEqual([0, expect.stringContaining("searched for 1 minted keys")]);
    expect(output).not.toContain("hold a minted key");
  },
);

it.each([
  ["log", "log"],
  ["hash-only", "log"],
  ["beginning", "log"],
  ["random part", "log"],
  ["response", "response"],
  ["twice in a mint", "response"],
  ["metrics", "metrics"],
  ["output", "output"],
])(
  "a run in which a key gets out (%s) fails and names the place, not the key",
  async (way, kind) => {
    const { code, output } = await run(way);
    expect([code, output]).toEqual([1, expect.stringContaining("lines hold a minted key")]);
    expect(output).toMatch(new RegExp(`cleartext-plant\\.\\d+\\.${kind}:\\d+`));
    expect(output).toMatch(/1 passed/);
    expect(output).not.toMatch(/svk_/);
  },
);
