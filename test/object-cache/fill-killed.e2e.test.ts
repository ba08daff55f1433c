/** The process is killed at every step of a fill: what it leaves is whole, or noticed and fetched again. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import { beforeEach, expect, it } from "vitest";

import type { FillPoint } from "../../src/object-cache/blocks.js";
import {
  cacheAnnouncement,
  type CacheWorld,
  createCacheWorld,
  getObject,
  metricOf,
} from "../helpers/object-cache/cache-world.js";
import { until } from "../helpers/until.js";

const MiB = 1 << 20;
const key = "log_entries/audience=a/x.l2.parquet";
const child = fileURLToPath(new URL("../helpers/object-cache/cache-child.js", import.meta.url));
let world: CacheWorld;

beforeEach(async () => {
  world = await createCacheWorld();
  return () => world.remove();
});

async function startChild(
  point: FillPoint,
  nth: number,
): Promise<{ readonly url: string; readonly process: ChildProcess }> {
  const started = spawn(process.execPath, ["--enable-source-maps", child, point, String(nth)], {
    env: { PATH: process.env["PATH"] ?? "", ...world.environment },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  let url = "";
  started.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
    url = cacheAnnouncement.exec(output)?.[1] ?? "";
  });
  await until(() => url !== "" || started.exitCode !== null);
  return { url, process: started };
}

it.each([
  ["fetch begun", 1],
  ["fetch begun", 2],
  ["block fetched", 1],
  ["block fetched", 6],
  ["file opened", 1],
  ["file opened", 4],
  ["file written", 1],
  ["file written", 5],
  ["file named", 1],
  ["file named", 7],
] as const)("%s, for the %s. time", async (point, nth) => {
  const content = await world.add(key, 7 * MiB + 3);
  const killed = await startChild(point, nth);
  const ended = once(killed.process, "exit");
  // A body that breaks off is no answer; one that came before the end is whole.
  const body = await getObject(killed.url, key)
    .then((response) => response.arrayBuffer())
    .catch(() => null);
  expect(body === null || Buffer.from(body).equals(content)).toBe(true);
  expect(await ended).toEqual([null, "SIGKILL"]);
  const server = await world.start();
  const kept = await world.blocks();
  expect(kept.filter((file) => file.endsWith(".tmp"))).toEqual([]);
  const response = await getObject(server.url, key);
  expect(Buffer.from(await response.arrayBuffer()).equals(content)).toBe(true);
  expect(await metricOf(server.url, 'object_cache_blocks_total{from="disk"}')).toBe(kept.length);
  expect(await metricOf(server.url, 'object_cache_blocks_total{from="origin"}')).toBe(8 - kept.length);
  expect(await metricOf(server.url, "object_cache_damaged_blocks_total")).toBe(0);
  await until(async () => (await world.blocks()).length === 8);
});
