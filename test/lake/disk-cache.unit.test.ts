/** Files on disk that can be fetched again: who holds one keeps it, and nobody is given a damaged one. */
import { readdirSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { crc32 } from "node:zlib";

import { afterEach, beforeEach, expect, it } from "vitest";

import { createCacheCounts } from "../../src/lake/cache/cache-counts.js";
import { DiskCache, type WantedFile } from "../../src/lake/cache/disk-cache.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { until } from "../helpers/until.js";
import { never } from "../helpers/never.js";

let directory = "";
let metrics: Metrics;
let cache: DiskCache;
/** Keys in the order in which they were fetched. */
let fetched: string[] = [];

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-cache-"));
  fetched = [];
  await reopen();
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** As after a restart. */
async function reopen(maxBytes = 100): Promise<void> {
  metrics = createMetrics();
  cache = await DiskCache.open(path.join(directory, "cache"), maxBytes, createCacheCounts(metrics));
}

/** A file of ten bytes below a directory, unless it is larger. */
function wanted(
  key: string,
  bytes = 10,
  before: (signal: AbortSignal) => Promise<void> = () => Promise.resolve(),
): WantedFile {
  return {
    key,
    bytes,
    fill: async (handle, signal) => {
      fetched.push(key);
      await before(signal);
      const content = Buffer.alloc(bytes, key);
      await handle.writeFile(content);
      return crc32(content);
    },
  };
}

const namesOf = async (): Promise<string[]> => {
  const entries = await readdir(path.join(directory, "cache"), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ name }) => name.replace(/~.*/u, ""))
    .toSorted();
};

it("fetches once, and again only what it had to remove, what was let go of longest ago first", async () => {
  for (const key of ["t/a", "t/b", "t/a", "t/c"]) {
    const held = await cache.hold([wanted(key, 40)], never);
    expect(await readFile(held.files[0] ?? "", "utf8")).toBe(key.repeat(20).slice(0, 40));
    held.release(false);
    held.release(false);
  }
  expect(fetched).toEqual(["t/a", "t/b", "t/c"]);
  expect(await namesOf()).toEqual(["a", "c"]);
  expect(cache.bytes).toBe(80);
  expect(await metrics.text()).toContain("lake_cache_evicted_bytes_total 40");
});

it("keeps what is held, lets others wait in turn, and refuses what can never fit", async () => {
  const first = await cache.hold([wanted("a", 60), wanted("b", 30)], never);
  await expect(cache.hold([wanted("huge", 101)], never)).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
  const order: string[] = [];
  const large = cache.hold([wanted("c", 50), wanted("a", 60)], never).catch(() => null);
  expect(await large).toBeNull();
  const second = cache.hold([wanted("d", 20)], never).then((held) => {
    order.push("d");
    return held;
  });
  const third = cache.hold([wanted("e", 10)], never).then((held) => {
    order.push("e");
    return held;
  });
  // Shared files take no room twice, but nobody overtakes.
  await Promise.resolve();
  expect(order).toEqual([]);
  expect(await namesOf()).toEqual(["a", "b"]);
  first.release(false);
  (await second).release(false);
  (await third).release(false);
  expect(order.toSorted()).toEqual(["d", "e"]);
  expect(cache.bytes).toBeLessThanOrEqual(100);
});

it("a caller that gives up leaves the queue to the next", async () => {
  const first = await cache.hold([wanted("a", 90)], never);
  const leaving = new AbortController();
  const second = cache.hold([wanted("b", 90)], leaving.signal);
  const third = cache.hold([wanted("c", 10)], never);
  leaving.abort();
  await expect(second).rejects.toMatchObject({ code: "CANCELLED" });
  (await third).release(false);
  first.release(false);
  expect(fetched).toEqual(["a", "c"]);
});

it("fetches once for many, and gives a fetch up when all of them have", async () => {
  const stages: string[] = [];
  const slow = wanted("a", 10, async (signal) => {
    stages.push("begun");
    await new Promise((resolve) => {
      signal.addEventListener("abort", resolve, { once: true });
    });
    stages.push("ended");
    signal.throwIfAborted();
  });
  const callers = [new AbortController(), new AbortController()];
  const holds = callers.map(({ signal }) => cache.hold([slow], signal));
  await until(() => stages.length === 1);
  callers[0]?.abort();
  await expect(holds[0]).rejects.toMatchObject({ code: "CANCELLED" });
  expect(stages).toEqual(["begun"]);
  callers[1]?.abort();
  await expect(holds[1]).rejects.toMatchObject({ code: "CANCELLED" });
  await until(() => stages.length === 2 && cache.bytes === 0);
  expect(fetched).toEqual(["a"]);
  expect(await namesOf()).toEqual([]);
  // Who comes while it ends gets it all the same.
  (await cache.hold([wanted("a")], never)).release(false);
});

it("fetches a caller's one file in turns with another's hundreds", async () => {
  await reopen(10_000);
  const many = cache.hold(
    Array.from({ length: 300 }, (_, i) => wanted(`many/${i}`)),
    never,
  );
  const one = await cache.hold([wanted("one")], never);
  expect(fetched.indexOf("one")).toBeLessThan(40);
  (await many).release(false);
  one.release(false);
  expect(fetched).toHaveLength(301);
});

it("leaves nothing of a fetch that fails, and gives the other files of the caller up", async () => {
  const failing = wanted("a", 10, () => Promise.reject(new RangeError("cut off")));
  const slow = wanted(
    "b",
    10,
    (signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener(
          "abort",
          () => {
            reject(new RangeError("given up"));
          },
          { once: true },
        );
      }),
  );
  await expect(cache.hold([slow, failing], never)).rejects.toThrow("cut off");
  await until(() => cache.bytes === 0);
  expect(await namesOf()).toEqual([]);
});

it("takes over what an earlier process left, but neither halves nor what is too much", async () => {
  (await cache.hold([wanted("t/a"), wanted("t/b"), wanted("t/c")], never)).release(false);
  await writeFile(path.join(directory, "cache", "t", ".0123.tmp"), "half");
  await writeFile(path.join(directory, "cache", "t", "strange"), "x");
  await reopen(20);
  expect(await namesOf()).toHaveLength(2);
  expect(cache.bytes).toBe(20);
  const kept = (await namesOf()).map((name) => `t/${name}`);
  fetched = [];
  (
    await cache.hold(
      kept.map((key) => wanted(key)),
      never,
    )
  ).release(false);
  expect(fetched).toEqual([]);
});

it("takes over what was fetched last where an earlier process left two files of a key", async () => {
  (await cache.hold([wanted("a")], never)).release(false);
  const wrong = Buffer.alloc(10, "wrong");
  const file = path.join(directory, "cache", `a~${crc32(wrong).toString(16).padStart(8, "0")}~10~10`);
  await writeFile(file, wrong);
  await utimes(file, 1, 1);
  await reopen();
  const held = await cache.hold([wanted("a")], never);
  expect(await readFile(held.files[0] ?? "", "utf8")).toBe("a".repeat(10));
  expect(await namesOf()).toEqual(["a"]);
  held.release(false);
});

it.each([
  ["other bytes", (file: string) => writeFile(file, "0123456789")],
  ["half of it", (file: string) => truncate(file, 5)],
  ["nothing", (file: string) => rm(file)],
  ["a directory", (file: string) => rm(file).then(() => mkdir(path.join(file, "x"), { recursive: true }))],
])(
  "fetches again what has %s on the disk: at once, after a restart, and after a failed query",
  async (_name, damage) => {
    for (const when of ["at once", "restart", "suspect"]) {
      const held = await cache.hold([wanted("a")], never);
      held.release(when === "suspect");
      await damage(held.files[0] ?? "");
      if (when === "restart") {
        await reopen();
      }
      fetched = [];
      const again = await cache.hold([wanted("a")], never);
      expect(fetched).toEqual(["a"]);
      expect(await readFile(again.files[0] ?? "", "utf8")).toBe("a".repeat(10));
      again.release(false);
    }
  },
);

it("keeps a file that somebody holds while it is fetched again for another, and when that fails", async () => {
  const held = await cache.hold([wanted("t/a")], never);
  const [file = ""] = held.files;
  const suspect = await cache.hold([wanted("t/a")], never);
  cache.doubt(["t/a"]);
  suspect.release(true);
  const seen: string[] = [];
  const look = async (): Promise<void> => void seen.push(await readFile(file, "utf8"));
  const failing = wanted("t/a", 10, async () => {
    await look();
    throw new RangeError("cut off");
  });
  await expect(cache.hold([failing], never)).rejects.toThrow("cut off");
  await look();
  const again = await cache.hold([wanted("t/a", 10, look)], never);
  expect(again.files).toEqual([file]);
  await look();
  expect(seen).toEqual(Array.from({ length: 4 }, () => "t/at/at/at"));
  expect(fetched).toEqual(["t/a", "t/a", "t/a"]);
  // Nobody holds it any more: what is in doubt makes room first.
  held.release(false);
  again.release(false);
  cache.doubt(["t/a"]);
  const gone = wanted("t/a", 10, () => expect(readFile(file)).rejects.toMatchObject({ code: "ENOENT" }));
  (await cache.hold([gone], never)).release(false);
  expect(await namesOf()).toEqual(["a"]);
  expect(cache.bytes).toBe(10);
});

it("leaves nothing of wrong bytes once the right ones are here", async () => {
  const held = await cache.hold([wanted("t/a")], never);
  cache.doubt(["t/a"]);
  const other: WantedFile = {
    ...wanted("t/a"),
    fill: async (handle) => {
      await handle.writeFile("0123456789");
      return crc32("0123456789");
    },
  };
  const again = await cache.hold([other], never);
  expect(await readFile(again.files[0] ?? "", "utf8")).toBe("0123456789");
  expect(await namesOf()).toEqual(["a"]);
  held.release(false);
  again.release(false);
});

it.each(["ENOSPC", "EDQUOT", "EROFS"])(
  "says that it cannot be written (%s), keeps nothing, and goes on by itself",
  async (code) => {
    const full = wanted("t/a", 10, () => Promise.reject(Object.assign(new Error("no room"), { code })));
    const both = cache.hold([full, wanted("t/b")], never);
    await expect(both).rejects.toMatchObject({ code: "UNAVAILABLE", retryable: true });
    expect(cache.has("t/a")).toBe(false);
    expect(await namesOf()).not.toContain("a");
    const held = await cache.hold([wanted("t/a"), wanted("t/b")], never);
    expect(await readFile(held.files[0] ?? "", "utf8")).toBe("t/at/at/at");
    held.release(false);
  },
);

it.each(["ENOSPC", "EDQUOT"])(
  "makes room on a disk that others have filled (%s) of what nobody holds",
  async (code) => {
    await reopen(1000);
    // There is room for four, the one that is written included.
    const limited = (key: string): WantedFile =>
      wanted(key, 10, async () => {
        if (readdirSync(path.join(directory, "cache")).length > 4) {
          throw Object.assign(new Error("no room"), { code });
        }
      });
    const kept = await cache.hold([limited("a"), limited("b")], never);
    (await cache.hold([limited("c")], never)).release(false);
    (await cache.hold([limited("d")], never)).release(false);
    (await cache.hold([limited("e"), limited("f")], never)).release(false);
    expect(await namesOf()).toEqual(["a", "b", "e", "f"]);
    expect(cache.bytes).toBe(40);
    expect(await metrics.text()).toContain("lake_cache_evicted_bytes_total 20");
    await expect(cache.hold(["g", "h", "i"].map(limited), never)).rejects.toThrow(
      /^the cache of the lake cannot be written/u,
    );
    kept.release(false);
    const all = await cache.hold(["g", "h", "i"].map(limited), never);
    expect(await Promise.all(all.files.map((file) => readFile(file, "utf8")))).toEqual(
      ["g", "h", "i"].map((key) => key.repeat(10)),
    );
  },
);

it("makes room for all who find the disk full at once", async () => {
  await reopen(1000);
  (await cache.hold([wanted("old")], never)).release(false);
  let full = 0;
  const limited = (key: string): WantedFile =>
    wanted(key, 10, async () => {
      if (full < 2) {
        full++;
        await until(() => full === 2);
        throw Object.assign(new Error("no room"), { code: "ENOSPC" });
      }
    });
  const held = await cache.hold([limited("a"), limited("b")], never);
  expect(await namesOf()).toEqual(["a", "b"]);
  held.release(false);
});

it("does not fetch again and again into a full disk because others make room for themselves", async () => {
  await reopen(20);
  let other = await cache.hold([wanted("0")], never);
  let tries = 0;
  const full = wanted("a", 10, async () => {
    if (++tries === 10) {
      return;
    }
    other.release(false);
    other = await cache.hold([wanted(String(tries))], never);
    throw Object.assign(new Error("no room"), { code: "ENOSPC" });
  });
  await expect(cache.hold([full], never)).rejects.toThrow("the cache of the lake cannot be written");
  expect(tries).toBe(2);
  other.release(false);
});

it("says so when somebody removes its files, and goes on by itself", async () => {
  const removed = wanted("t/a", 10, () => rm(path.join(directory, "cache", "t"), { recursive: true }));
  await expect(cache.hold([removed], never)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining("somebody removes its files"),
  });
  const held = await cache.hold([wanted("t/a")], never);
  expect(await readFile(held.files[0] ?? "", "utf8")).toBe("t/at/at/at");
  held.release(false);
});

it("fetches again what the disk does not give back", async () => {
  const like = path.join(directory, "like");
  await mkdir(like);
  const { size } = await stat(like);
  await reopen(2 * size);
  const held = await cache.hold([wanted("a", size)], never);
  held.release(true);
  // As large as the file, and every read of it fails.
  await rm(held.files[0] ?? "");
  await mkdir(held.files[0] ?? "");
  const again = await cache.hold([wanted("a", size)], never);
  expect(await readFile(again.files[0] ?? "", "utf8")).toBe("a".repeat(size));
  expect(fetched).toEqual(["a", "a"]);
});

it("gives others their files although the disk lets none be removed, and says so of one that it does not take", async () => {
  (await cache.hold([wanted("t/a")], never)).release(false);
  const folder = path.join(directory, "cache", "t");
  await rm(folder, { recursive: true });
  // A loop: no name below can be looked up.
  await symlink("t", folder);
  await expect(cache.hold([wanted("t/a")], never)).rejects.toThrow(/^the cache of the lake cannot be written/u);
  await reopen();
  await rm(folder);
  (await cache.hold([wanted("t/a")], never)).release(false);
  await rm(folder, { recursive: true });
  await symlink("t", folder);
  for (const round of [1, 2, 3]) {
    const many = Array.from({ length: 10 }, (_, i) => wanted(`u/${round}${i}`));
    const held = await cache.hold(many, never);
    held.release(false);
    expect(cache.bytes).toBe(100);
  }
});
