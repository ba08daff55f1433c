/** The watch over minted keys (test/helpers/cleartext/cleartext-watch.ts) sees every way out, and fails the run. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const vitest = path.join(path.dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");

/** A vitest run of passing tests, one for each way, in which a key of its own gets out. */
async function run(...ways: string[]): Promise<{ code: number | null; output: string }> {
  const config = "dist/test/helpers/cleartext/cleartext-plant-config.js";
  const child = spawn(process.execPath, [vitest, "run", "--config", config], {
    cwd: root,
    env: { PATH: process.env["PATH"], PLANT: ways.join(","), NO_COLOR: "1" },
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

it("a run in which a mint shows a key, and nothing else does, passes", async () => {
  const { code, output } = await run("nothing", "mint");
  expect([code, output]).toEqual([0, expect.stringContaining("searched for 2 minted keys")]);
  expect(output).not.toContain("hold a minted key");
});

it("a run in which keys get out fails, and names each place, not the keys", async () => {
  const logged = ["log", "hash-only", "beginning", "random part"];
  const answered = ["response", "twice in a mint"];
  const { code, output } = await run(...logged, ...answered, "metrics", "output");
  expect([code, output]).toEqual([1, expect.stringContaining("8 lines hold a minted key")]);
  const places = output.match(/cleartext-plant\.\d+\.\w+:\d+/g) ?? [];
  const lines = ["log", "response", "metrics", "output"].map(
    (kind) => new Set(places.filter((place) => place.includes(`.${kind}:`))).size,
  );
  expect(lines).toEqual([4, 2, 1, 1]);
  expect(output).toMatch(/8 passed/);
  expect(output).not.toMatch(/svk_/);
});
