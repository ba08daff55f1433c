/** The S3 store against a real server, through a proxy that breaks requests and answers. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, readlink, rm, truncate, writeFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { crc32 } from "node:zlib";

import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";

import { DamagedObject, type ObjectStore } from "../../src/lake/store/object-store.js";
import { withEndpoint } from "../../src/lake/store/s3-address.js";
import { defaultTiming } from "../../src/lake/store/s3-client.js";
import { partBytes } from "../../src/lake/store/s3-put.js";
import { openS3Store } from "../../src/lake/store/s3-store.js";
import { type FaultyBucket, startFaultyBucket, stubS3Environment } from "../helpers/lake/faulty-bucket.js";
import { type Fault, findS3Server, replaces, s3Environment } from "../helpers/lake/s3-server.js";
import { until } from "../helpers/until.js";
import { never } from "../helpers/never.js";

const program = await findS3Server();

describe.skipIf(program === null)("an S3 store", () => {
  let bucket: FaultyBucket;
  let store: ObjectStore;
  let directory = "";

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-s3-files-"));
    bucket = await startFaultyBucket(program);
    store = await openS3Store(withEndpoint("s3://lake/deep/prefix", bucket.proxy.endpoint), {
      connectMs: 2000,
      answerMs: 2000,
      putMs: 12_000,
      smallMs: 6000,
      probeMs: 6000,
    });
  });

  beforeEach(() => {
    bucket.proxy.fault = () => null;
    bucket.proxy.requests.length = 0;
  });

  afterAll(async () => {
    await bucket.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const remote = (): NonNullable<ObjectStore["remote"]> => {
    if (store.remote === null) {
      throw new TypeError("a store without a network");
    }
    return store.remote;
  };
  const read = async (name: string, range: { start: number; length: number } | null = null): Promise<Buffer> => {
    const parts: Buffer[] = [];
    let next = range?.start ?? 0;
    await remote().read(
      name,
      range,
      (bytes, at) => {
        expect(at).toBe(next);
        next += bytes.length;
        parts.push(Buffer.from(bytes));
        return Promise.resolve();
      },
      never,
    );
    return Buffer.concat(parts);
  };
  const listed = async (prefix = ""): Promise<string[]> => {
    const paths: string[] = [];
    for await (const object of store.list(prefix)) {
      paths.push(`${object.path} ${object.bytes}`);
    }
    return paths.toSorted();
  };
  /** Faults for the first requests of a method, one each; later ones pass. */
  const breakFirst = (wanted: string, ...faults: Fault[]): void => {
    bucket.proxy.fault = (method, url) =>
      `${method} ${url.pathname}`.includes(wanted) ? (faults.shift() ?? null) : null;
  };
  const fileOf = async (bytes: Buffer): Promise<string> => {
    const file = path.join(directory, "large");
    await writeFile(file, bytes);
    return file;
  };

  it("verifies itself, and leaves nothing", async () => {
    await remote().verify();
    expect(await listed()).toEqual([]);
  });

  it("stores, reads in whole and in ranges, lists and removes", async () => {
    const bytes = randomBytes(300_000);
    await store.put("t/audience=a/x.parquet", [bytes.subarray(0, 1000), bytes.subarray(1000)]);
    await store.put("t/audience=ab/y.parquet", [Buffer.from("y")]);
    expect(await read("t/audience=a/x.parquet")).toEqual(bytes);
    expect(await read("t/audience=a/x.parquet", { start: 10, length: 100 })).toEqual(bytes.subarray(10, 110));
    expect(await listed("t/audience=a")).toEqual(["t/audience=a/x.parquet 300000"]);
    expect(await listed("t")).toEqual(["t/audience=a/x.parquet 300000", "t/audience=ab/y.parquet 1"]);
    await store.remove("t/audience=a/x.parquet");
    await store.remove("t/audience=a/x.parquet");
    await store.remove("t/audience=ab/y.parquet");
    expect(await listed()).toEqual([]);
    await expect(read("t/audience=a/x.parquet")).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("never replaces an object", async () => {
    await store.put("once/x", [Buffer.from("first")]);
    await expect(store.put("once/x", [Buffer.from("other")])).rejects.toMatchObject({ code: "CONFLICT" });
    expect(String(await read("once/x"))).toBe("first");
    // The same once more is what a repeated request is.
    await store.put("once/x", [Buffer.from("first")]);
    await store.remove("once/x");
  });

  it("stores large files in parts, also only once", async () => {
    const bytes = randomBytes(partBytes * 2 + 12_345);
    const file = await fileOf(bytes);
    expect(await remote().putFile("large/x", file)).toEqual({ fileBytes: bytes.length, checksum: crc32(bytes) });
    expect((await read("large/x")).equals(bytes)).toBe(true);
    await remote().putFile("large/x", file);
    bytes.writeUInt8(bytes.readUInt8(0) ^ 1, 0);
    await expect(remote().putFile("large/x", await fileOf(bytes))).rejects.toMatchObject({ code: "CONFLICT" });
    expect(
      bucket.proxy.requests.filter(({ method, url }) => method === "DELETE" && url.search.includes("uploadId")),
    ).toHaveLength(2);
    await store.remove("large/x");
  });

  it("closes a file whose upload cannot begin", async () => {
    const file = await fileOf(randomBytes(partBytes * 3));
    breakFirst("POST", { kind: "status", status: 403, code: "AccessDenied" });
    await expect(remote().putFile("refused/large", file)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    const open = async (): Promise<string[]> => {
      const names = await readdir("/proc/self/fd");
      const files = await Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => "")));
      return files.filter((name) => name === file);
    };
    await expect.poll(open).toEqual([]);
  });

  it.each([
    ["500", { kind: "status", status: 500, code: "InternalError" }],
    ["503", { kind: "status", status: 503, code: "SlowDown" }],
    ["409, for another request under way", { kind: "status", status: 409, code: "ConditionalRequestConflict" }],
    ["no answer", { kind: "silence" }],
    ["an answer that was lost after the object was stored", { kind: "lost answer" }],
  ] as const)("puts once more after %s", async (_name, fault) => {
    breakFirst("PUT /lake/deep/prefix/again", fault);
    await store.put("again/x", [Buffer.from("x")]);
    expect(String(await read("again/x"))).toBe("x");
    expect(bucket.proxy.requests.filter(({ method }) => method === "PUT")).toHaveLength(2);
    await store.remove("again/x");
  });

  it.each(["POST", "PUT"])(
    "finishes a large object when the answer to a %s, its completion or a part, is lost",
    async (method) => {
      const bytes = randomBytes(partBytes + 1);
      let lost = 0;
      bucket.proxy.fault = (m, { searchParams }) =>
        m === method && searchParams.has("uploadId") && lost++ === 0 ? { kind: "lost answer" } : null;
      await remote().putFile("again/large", await fileOf(bytes));
      expect(lost).toBeGreaterThan(0);
      expect((await read("again/large")).equals(bytes)).toBe(true);
      await store.remove("again/large");
    },
  );

  it("gives a put up at its deadline, in words that hold no secret", async () => {
    bucket.proxy.fault = () => ({ kind: "silence" });
    const failure: unknown = await store.put("late/x", [Buffer.from("x")]).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "UNAVAILABLE",
      retryable: true,
      message: expect.stringMatching(/^the object store cannot be written: no answer comes: /u) as string,
    });
    expect(JSON.stringify(failure, Object.getOwnPropertyNames(failure))).not.toMatch(
      /lake-secret|Signature|lakeaccess/u,
    );
    bucket.proxy.fault = () => null;
    await store.remove("late/x");
  });

  it("fails when the store refuses a condition without a reason", async () => {
    breakFirst(
      "PUT",
      ...Array.from({ length: 9 }, (): Fault => ({ kind: "status", status: 412, code: "PreconditionFailed" })),
    );
    await expect(store.put("refused/x", [Buffer.from("x")])).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(await listed("refused")).toEqual([]);
  });

  it("goes on reading where a body was cut off", async () => {
    const bytes = randomBytes(3_000_000);
    await store.put("cut/x", [bytes]);
    bucket.proxy.requests.length = 0;
    breakFirst("GET", { kind: "cut body", bytes: 1_000_000 }, { kind: "cut body", bytes: 5 }, { kind: "silence" });
    expect((await read("cut/x")).equals(bytes)).toBe(true);
    breakFirst("GET", { kind: "cut body", bytes: 1000 });
    expect((await read("cut/x", { start: 5, length: 100_000 })).equals(bytes.subarray(5, 100_005))).toBe(true);
    await store.remove("cut/x");
  });

  it("gives up a body that comes byte by byte", async () => {
    const impatient = await openS3Store(store.uri, { ...defaultTiming, answerMs: 250 });
    await store.put("slow/x", [randomBytes(100_000)]);
    bucket.proxy.fault = (method) => (method === "GET" ? { kind: "drip", everyMs: 50 } : null);
    const reading = impatient.remote?.read("slow/x", null, () => Promise.resolve(), AbortSignal.timeout(20_000));
    await expect(reading).rejects.toMatchObject({ code: "UNAVAILABLE", message: expect.stringContaining("too slow") });
    bucket.proxy.fault = () => null;
    await store.remove("slow/x");
  });

  it("leaves a failure of who takes the bytes as it is", async () => {
    await store.put("full/x", [Buffer.from("x")]);
    const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    const reading = remote().read("full/x", null, () => Promise.reject(full), never);
    await expect(reading).rejects.toBe(full);
    await store.remove("full/x");
  });

  it("does not take a damaged object for a good one", async () => {
    const bytes = randomBytes(100_000);
    await store.put("bad/x", [bytes]);
    bucket.proxy.fault = (method) => (method === "GET" ? { kind: "flipped byte", at: 50_000 } : null);
    await expect(read("bad/x")).rejects.toMatchObject({ code: "UNAVAILABLE" });
    bucket.proxy.fault = () => null;
    await store.remove("bad/x");
  });

  const changed = (change: (headers: IncomingHttpHeaders) => IncomingHttpHeaders): Fault => ({
    kind: "changed head",
    change,
  });
  const without = (name: string): Fault =>
    changed((head) => Object.fromEntries(Object.entries(head).filter(([other]) => other !== name)));
  it.each([
    ["of another range", changed((head) => ({ ...head, "content-range": "bytes 0-9/100000" })), false],
    ["of no range", without("content-range"), false],
    ["that does not say how long it is", without("content-length"), false],
    ["that something has compressed", changed((head) => ({ ...head, "content-encoding": "gzip" })), false],
    [
      "of another object",
      changed((head) => ({ ...head, "content-range": String(head["content-range"]).replace(/\d+$/u, "100001") })),
      true,
    ],
    ["of somebody else", { kind: "page" }, false],
  ] as const)("takes no answer %s, nor an object for damaged because of one", async (_what, fault, isDamaged) => {
    await store.put("odd/x", [randomBytes(100_000)]);
    bucket.proxy.fault = (method) => (["GET", "HEAD"].includes(method) ? fault : null);
    const reading = remote().read("odd/x", { start: 50, length: 10 }, () => Promise.resolve(), never, 100_000);
    const failure: unknown = await reading.catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "UNAVAILABLE" });
    expect(failure instanceof DamagedObject).toBe(isDamaged);
    bucket.proxy.fault = () => null;
    await store.remove("odd/x");
  });

  it("knows no size of an object from an answer that says none", async () => {
    bucket.proxy.fault = () => ({ kind: "page" });
    await expect(store.size("odd/x", never)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  it("fails, and hears no more of it, when an object of another size is given up afterwards", async () => {
    await store.put("bad/size", [randomBytes(4000)]);
    await truncate(path.join(bucket.server.directory, "lake/deep/prefix/bad/size"), 3900);
    const heard: unknown[] = [];
    const hear = (error: unknown): void => {
      heard.push(error);
    };
    process.on("uncaughtException", hear);
    try {
      const controller = new AbortController();
      const reading = remote().read("bad/size", null, () => Promise.resolve(), controller.signal, 4000);
      await expect(reading).rejects.toBeInstanceOf(DamagedObject);
      // What a query and a merge do with the other objects.
      controller.abort();
      // By another connection, whose answer comes later than what the abort does to the first.
      await store.put("bad/later", [Buffer.from("x")]);
      expect(String(await read("bad/later"))).toBe("x");
      expect(heard).toEqual([]);
    } finally {
      process.off("uncaughtException", hear);
    }
    await store.remove("bad/size");
    await store.remove("bad/later");
  });

  it("lists page by page", async () => {
    const many = Array.from({ length: 1003 }, (_, i) => `many/${String(i).padStart(4, "0")}`);
    for (let i = 0; i < many.length; i += 50) {
      await Promise.all(many.slice(i, i + 50).map((name) => store.put(name, [Buffer.from("x")])));
    }
    expect(await listed("many")).toEqual(many.map((name) => `${name} 1`));
    expect(bucket.proxy.requests.filter(({ url }) => url.searchParams.has("list-type"))).toHaveLength(2);
    for (let i = 0; i < many.length; i += 50) {
      await Promise.all(many.slice(i, i + 50).map((name) => store.remove(name)));
    }
  });

  it.each([null, "same"])("lists nothing for ever, nor half, when a list goes on with %s", async (token) => {
    bucket.proxy.fault = () => ({ kind: "endless list", token });
    await expect(listed()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  it("stores and removes nothing by answers of somebody else", async () => {
    const large = await fileOf(randomBytes(partBytes + 1));
    await store.put("page/x", [Buffer.from("x")]);
    for (const wanted of ["PUT /lake", "POST /lake"]) {
      bucket.proxy.fault = (method, url) => (`${method} ${url.pathname}`.startsWith(wanted) ? { kind: "page" } : null);
      await expect(remote().putFile("page/large", large)).rejects.toMatchObject({
        code: "UNAVAILABLE",
        message: expect.stringContaining("SVC_S3_ENDPOINT") as string,
      });
    }
    bucket.proxy.fault = (method, url) =>
      method === "POST" && url.searchParams.has("uploadId") ? { kind: "page" } : null;
    await expect(remote().putFile("page/large", large)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    bucket.proxy.fault = () => ({ kind: "page" });
    await expect(store.put("page/small", [Buffer.from("x")])).rejects.toMatchObject({ code: "UNAVAILABLE" });
    bucket.proxy.fault = () => ({ kind: "status", status: 404, code: "NoSuchBucket" });
    await expect(store.remove("page/x")).rejects.toMatchObject({ code: "UNAVAILABLE" });
    bucket.proxy.fault = () => null;
    expect(await listed("page")).toEqual(["page/x 1"]);
    await store.remove("page/x");
    await store.remove("page/x");
  });

  it.each([
    ["replaces objects", (method: string) => method === "PUT", "ignores If-None-Match:"],
    [
      "replaces them where uploads in parts are completed",
      (method: string) => method === "POST",
      "where an upload in parts is completed",
    ],
  ] as const)("refuses a store that %s, with what to do", async (_what, applies, words) => {
    bucket.proxy.fault = replaces(bucket.server, applies);
    await expect(remote().verify()).rejects.toMatchObject({
      code: "NOT_CONFIGURED",
      message: expect.stringMatching(new RegExp(`${words}.*Upgrade it`, "u")) as string,
    });
    bucket.proxy.fault = () => null;
    expect(await listed(".probe")).toEqual([]);
  });

  it("refuses a store without If-None-Match, with what to do", async () => {
    bucket.proxy.fault = (_method, _url, headers) =>
      headers["if-none-match"] === undefined ? null : { kind: "status", status: 501, code: "NotImplemented" };
    await expect(remote().verify()).rejects.toMatchObject({
      code: "NOT_CONFIGURED",
      message: expect.stringContaining("has no If-None-Match") as string,
    });
  });

  it("says what is wrong with rights, bucket and credentials", async () => {
    bucket.proxy.fault = () => ({ kind: "status", status: 403, code: "AccessDenied" });
    await expect(remote().verify()).rejects.toThrow("docs/deploy.md");
    bucket.proxy.fault = () => null;
    const elsewhere = await openS3Store(withEndpoint("s3://nowhere", bucket.server.endpoint));
    await expect(elsewhere.remote?.verify()).rejects.toThrow("no such bucket");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "wrong");
    const stranger = await openS3Store(withEndpoint("s3://lake", bucket.server.endpoint));
    await expect(stranger.remote?.verify()).rejects.toThrow("AWS_SECRET_ACCESS_KEY");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", s3Environment.AWS_SECRET_ACCESS_KEY);
  });

  it("goes on with other credentials when the store no longer knows those of a file", async () => {
    const file = path.join(directory, "credentials");
    const give = (id: string, secret: string): Promise<void> =>
      writeFile(file, `[rotated]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`);
    vi.stubEnv("AWS_PROFILE", "rotated");
    vi.stubEnv("AWS_ACCESS_KEY_ID", undefined);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", undefined);
    vi.stubEnv("AWS_SHARED_CREDENTIALS_FILE", file);
    await give(s3Environment.AWS_ACCESS_KEY_ID, "an old one");
    try {
      const own = await openS3Store(withEndpoint("s3://lake/rotated", bucket.server.endpoint));
      await expect(own.put("a/x", [Buffer.from("x")])).rejects.toThrow("does not know the credentials");
      await give(s3Environment.AWS_ACCESS_KEY_ID, s3Environment.AWS_SECRET_ACCESS_KEY);
      await until(async () =>
        own.put("a/y", [Buffer.from("y")]).then(
          () => true,
          () => false,
        ),
      );
      // Whoever asks for sizes alone, as the object cache does, is never told more than that it is refused.
      await give(s3Environment.AWS_ACCESS_KEY_ID, "an old one");
      const looks = await openS3Store(withEndpoint("s3://lake/rotated", bucket.server.endpoint));
      await expect(looks.size("a/y", never)).rejects.toThrow("it denies access");
      await give(s3Environment.AWS_ACCESS_KEY_ID, s3Environment.AWS_SECRET_ACCESS_KEY);
      await until(async () =>
        looks.size("a/y", never).then(
          (bytes) => bytes === 1,
          () => false,
        ),
      );
      await own.remove("a/y");
    } finally {
      vi.unstubAllEnvs();
      stubS3Environment();
    }
  });

  it("probes, at most every few seconds, and is honest while the server is gone", async () => {
    const own = await openS3Store(withEndpoint("s3://lake/probed", bucket.proxy.endpoint));
    await Promise.all([own.probe(), own.probe()]);
    await own.probe();
    expect(bucket.proxy.requests.map(({ method }) => method)).toEqual(["PUT", "DELETE"]);
    expect(await listed(".probe")).toEqual([]);
    const kept = await openS3Store(withEndpoint("s3://lake/probed", bucket.proxy.endpoint));
    bucket.proxy.fault = (method) =>
      method === "DELETE" ? { kind: "status", status: 403, code: "AccessDenied" } : null;
    const left = async (): Promise<number> =>
      (await readdir(path.join(bucket.server.directory, "lake/probed/.probe")).catch(() => [])).length;
    await expect(kept.probe()).rejects.toThrow("it denies access");
    await expect(kept.probe()).rejects.toThrow("it denies access");
    expect(await left()).toBe(1);
    bucket.proxy.fault = () => null;
    await kept.probe();
    expect(await left()).toBe(0);
    const refused = await openS3Store(withEndpoint("s3://lake/probed", bucket.proxy.endpoint));
    bucket.proxy.fault = (_method, _url, headers) =>
      headers["if-none-match"] === undefined ? null : { kind: "status", status: 412, code: "PreconditionFailed" };
    await expect(refused.probe()).rejects.toMatchObject({ code: "UNAVAILABLE" });
    bucket.proxy.fault = () => null;
    await refused.probe();
    const other = await openS3Store(withEndpoint("s3://lake/probed", bucket.proxy.endpoint));
    await bucket.server.kill();
    await expect(other.probe()).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(other.put("x", [Buffer.from("x")])).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await bucket.server.start();
    await other.probe();
    await other.put("x", [Buffer.from("x")]);
    expect(await readdir(path.join(bucket.server.directory, "lake/probed"))).toContain("x");
    expect(await readFile(path.join(bucket.server.directory, "lake/probed/x"), "utf8")).toBe("x");
  });
});
