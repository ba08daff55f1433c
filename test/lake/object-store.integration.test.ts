import { spawnSync } from "node:child_process";
import fs from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ObjectStore, StoredObject } from "../../src/lake/store/object-store.js";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import { objectPath } from "../../src/lake/store/paths.js";

let directory = "";
let root = "";
let store: ObjectStore;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "lake-store-"));
  root = join(directory, "a", "lake");
  store = await openObjectStore(pathToFileURL(root).href);
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function collect(prefix = ""): Promise<StoredObject[]> {
  const objects: StoredObject[] = [];
  for await (const object of store.list(prefix)) {
    objects.push(object);
  }
  return objects.sort((a, b) => (a.path < b.path ? -1 : 1));
}

describe("a file store", () => {
  test("that cannot be made names its directory and its option", async () => {
    await expect(openObjectStore(pathToFileURL(join(import.meta.filename, "lake")).href)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(
        /object-store.*lake, cannot be made \(ENOTDIR\): correct SVC_OBJECT_STORE_URI/u,
      ) as string,
    });
  });

  test("stores chunks in order, more of them than one system call takes", async () => {
    const chunks = Array.from({ length: 3000 }, (_, i) => Buffer.from(`${i},`));
    await store.put("t/audience=public/2026-11-21/x.parquet", chunks);
    expect(await readFile(join(root, "t/audience=public/2026-11-21/x.parquet"))).toEqual(Buffer.concat(chunks));
    expect(await collect()).toMatchObject([
      { path: "t/audience=public/2026-11-21/x.parquet", bytes: Buffer.concat(chunks).length },
    ]);
  });

  test("leaves nothing but the object, closed to other users", async () => {
    await store.put("t/d/x.parquet", [Buffer.from("x")]);
    expect(await readdir(join(root, "t/d"))).toEqual(["x.parquet"]);
    expect((await stat(join(root, "t/d/x.parquet"))).mode & 0o007).toBe(0);
    expect((await stat(join(root, "t/d"))).mode & 0o007).toBe(0);
    expect((await stat(root)).mode & 0o007).toBe(0);
  });

  test("goes on when a directory it knew is gone", async () => {
    await store.put("t/d/1.parquet", [Buffer.from("1")]);
    await rm(join(root, "t"), { recursive: true });
    await store.put("t/d/2.parquet", [Buffer.from("2")]);
    expect((await collect()).map(({ path }) => path)).toEqual(["t/d/2.parquet"]);
  });

  test("reports a write that fails as unavailable and leaves no temporary file", async () => {
    // A directory in the place of the object makes the rename fail after everything is written.
    await mkdir(join(root, "t/d/x.parquet/inside"), { recursive: true });
    await expect(store.put("t/d/x.parquet", [Buffer.from("x")])).rejects.toMatchObject({
      code: "UNAVAILABLE",
      retryable: true,
    });
    expect(await readdir(join(root, "t/d"))).toEqual(["x.parquet"]);
  });

  test("reports a write cut short as unavailable and leaves no temporary file", async () => {
    // A limit on file sizes is the nearest thing to a full disk that needs no mount.
    const script = `
        import { openObjectStore } from ${JSON.stringify(new URL("../../src/lake/store/open-store.js", import.meta.url).href)};
        process.on("SIGXFSZ", () => {});
        const store = await openObjectStore(${JSON.stringify(pathToFileURL(root).href)});
        try { await store.put("t/d/big.parquet", [Buffer.alloc(1 << 20)]); console.log("stored"); }
        catch (error) { console.log(error.code, error.cause?.code); }`;
    const result = spawnSync(
      "bash",
      ["-c", `ulimit -f 100; exec "${process.execPath}" --input-type=module -e "$0"`, script],
      { encoding: "utf8" },
    );
    expect(result.stdout.trim()).toBe("UNAVAILABLE EFBIG");
    expect(await readdir(join(root, "t/d"))).toEqual([]);
  });

  test("has taken the bytes of one among others when it returns, and syncs these together", async () => {
    const bytes = Buffer.from("first");
    const puts = ["t/a/1.parquet", "t/b/2.parquet"].map((path) => {
      const put = store.put(path, [bytes], true);
      bytes.write("other");
      return put;
    });
    await Promise.all(puts);
    expect(await readFile(join(root, "t/a/1.parquet"), "utf8")).toBe("first");
    expect(await readFile(join(root, "t/b/2.parquet"), "utf8")).toBe("other");
  });

  test.each(["fdatasync", "fsync"] as const)("has stored one when its %s has ended, too", async (name) => {
    const real = fs[name];
    const held: (() => void)[] = [];
    const late = (_descriptor: number, done: fs.NoParamCallback): void => {
      held.push(() => {
        done(null);
      });
    };
    Object.assign(fs, { [name]: late });
    syncBuiltinESMExports();
    try {
      const put = store.put("t/d/1.parquet", [Buffer.from("1")], true);
      expect(await Promise.race([put, setTimeout(200, "waits")])).toBe("waits");
      held[0]?.();
      await put;
    } finally {
      Object.assign(fs, { [name]: real });
      syncBuiltinESMExports();
    }
  });

  test.each([
    ["fdatasync", "EIO", "the object store cannot be written"],
    ["fsync", "ENOSPC", "the object store cannot be written: its disk is full"],
    ["fsync", "EDQUOT", "the object store cannot be written: its quota of the disk is used up"],
  ] as const)("has nothing of one whose %s fails (%s)", async (name, code, message) => {
    await store.put("t/d/1.parquet", [Buffer.from("1")]);
    const real = fs[name];
    const failing = (_descriptor: number, done: fs.NoParamCallback): void => {
      done(Object.assign(new Error(`${code}: it failed`), { code }));
    };
    Object.assign(fs, { [name]: failing });
    syncBuiltinESMExports();
    try {
      const put = store.put("t/d/2.parquet", [Buffer.from("2")], true);
      await expect(put).rejects.toMatchObject({ code: "UNAVAILABLE", message, cause: { code } });
    } finally {
      Object.assign(fs, { [name]: real });
      syncBuiltinESMExports();
    }
    expect(await readdir(join(root, "t/d"))).toEqual(["1.parquet"]);
  });

  test("refuses every path that leads out of it", async () => {
    for (const path of ["../x", "a/../../x", "/etc/x", "a//b", "", ".", "a/./b", "a\\b", "a\0b", "ä"]) {
      await expect(store.put(path, [Buffer.from("x")])).rejects.toMatchObject({
        code: "BAD_REQUEST",
      });
      await expect(store.remove(path)).rejects.toMatchObject({ code: "BAD_REQUEST" });
      expect(() => store.localPath(path)).toThrow("not a path of the object store");
    }
    expect(await readdir(directory)).toEqual(["a"]);
  });

  test("removes objects, also those that are gone already", async () => {
    await store.put("t/x.parquet", [Buffer.from("x")]);
    await store.remove("t/x.parquet");
    await store.remove("t/x.parquet");
    expect(await collect()).toEqual([]);
  });

  test("lists below a prefix, with sizes and times", async () => {
    await store.put("a/1.parquet", [Buffer.from("1")]);
    await store.put("b/2.parquet", [Buffer.from("22")]);
    await utimes(join(root, "b/2.parquet"), 1000, 1000);
    expect(await collect("b")).toEqual([{ path: "b/2.parquet", bytes: 2, modifiedMs: 1_000_000 }]);
    expect(await collect("nothing")).toEqual([]);
  });

  test("names the file behind an object", async () => {
    await store.put("t/x.parquet", [Buffer.from("x")]);
    expect(await readFile(store.localPath("t/x.parquet") ?? "", "utf8")).toBe("x");
  });

  test("answers a probe, and fails it when its directory is gone", async () => {
    await store.probe();
    expect(await readdir(root)).toEqual([]);
    await rm(root, { recursive: true });
    await writeFile(root, "not a directory");
    await expect(store.probe()).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await chmod(root, 0o600);
  });
});

test("other schemes are refused with the variable's name", async () => {
  await expect(openObjectStore("gs://bucket/prefix")).rejects.toMatchObject({
    code: "NOT_CONFIGURED",
    message: expect.stringContaining("SVC_OBJECT_STORE_URI") as string,
  });
  await expect(openObjectStore("/var/lib/lake")).rejects.toMatchObject({ code: "NOT_CONFIGURED" });
  await expect(openObjectStore("file://host/share")).rejects.toMatchObject({
    code: "NOT_CONFIGURED",
  });
});

describe("object paths", () => {
  const ms = Date.UTC(2026, 10, 21, 23, 59, 59);

  test("name table, audience and the UTC day of insertion", () => {
    expect(objectPath("log_entries", "public", ms, "id")).toBe("log_entries/audience=public/2026-11-21/id.l0.parquet");
  });

  test("keep unstamped rows and the longest audience apart from every other, and storable", async () => {
    const longest = "a".repeat(255);
    const paths = [null, "unstamped", "audience", longest, `${"a".repeat(254)}b`].map((audience) =>
      objectPath("spans", audience, ms, "id"),
    );
    expect(new Set(paths).size).toBe(paths.length);
    for (const path of paths) {
      await store.put(path, [Buffer.from("x")]);
    }
    expect(await collect()).toHaveLength(paths.length);
  });
});
