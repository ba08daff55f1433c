/** `object-cache-srv` as a process of its own, asked by clients that nobody here wrote: fetch and curl. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import {
  type CacheWorld,
  cacheKey,
  createCacheWorld,
  getObject,
  metricOf,
} from "../helpers/object-cache/cache-world.js";
import type { ServerProcess } from "../helpers/servers/server-process.js";
import { until } from "../helpers/until.js";

const run = promisify(execFile);
const MiB = 1 << 20;
const large = "log_entries/audience=a/2026-11-22/large.l2.parquet";
const small = "log_entries/audience=a/2026-11-22/small.l0.parquet";

const bytesOf = async (response: Response): Promise<Buffer> => Buffer.from(await response.arrayBuffer());

describe.each(["uws", "node"])("over the driver %s", (driver) => {
  let world: CacheWorld;
  let server: ServerProcess;
  let content: Buffer;
  let smallContent: Buffer;

  beforeAll(async () => {
    world = await createCacheWorld();
    content = await world.add(large, 9 * MiB + 12_345);
    smallContent = await world.add(small, 1000);
    await world.add("log_entries/audience=a/empty", 0);
    await world.add("spans/audience=a/x", 10);
    server = await world.start({ SVC_HTTP_DRIVER: driver, SVC_OBJECT_CACHE_PREFIX: "log_entries" });
  });

  afterAll(async () => {
    await world.remove();
  });

  it("gives whole objects, by fetch and by curl", async () => {
    const response = await getObject(server.url, large);
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-length": String(content.length),
      "accept-ranges": "bytes",
      "content-type": "application/octet-stream",
    });
    expect((await bytesOf(response)).equals(content)).toBe(true);
    const file = path.join(world.directory, "curl.out");
    await run("curl", ["-sSf", "-o", file, "-H", `Authorization: Bearer ${cacheKey}`, `${server.url}/obj/${large}`]);
    expect((await readFile(file)).equals(content)).toBe(true);
  });

  it("gives ranges, by fetch and by curl, which resumes a download with one", async () => {
    const response = await getObject(server.url, large, { range: `bytes=${MiB - 5}-${2 * MiB + 5}` });
    expect(response.status).toBe(206);
    expect(response.headers.get("content-range")).toBe(`bytes ${MiB - 5}-${2 * MiB + 5}/${content.length}`);
    expect((await bytesOf(response)).equals(content.subarray(MiB - 5, 2 * MiB + 6))).toBe(true);
    const last = await getObject(server.url, large, { range: "bytes=-7" });
    expect([last.status, await bytesOf(last)]).toEqual([206, content.subarray(-7)]);
    const file = path.join(world.directory, "resumed.out");
    const curl = (...args: string[]) =>
      run("curl", [
        "-sSf",
        "-o",
        file,
        "-H",
        `Authorization: Bearer ${cacheKey}`,
        ...args,
        `${server.url}/obj/${large}`,
      ]);
    await curl("-r", "0-4999999");
    expect((await stat(file)).size).toBe(5_000_000);
    await curl("-C", "-");
    expect((await readFile(file)).equals(content)).toBe(true);
  });

  it("says what is there without sending it", async () => {
    const { stdout } = await run("curl", [
      "-sS",
      "-I",
      "-H",
      `Authorization: Bearer ${cacheKey}`,
      "-H",
      "Range: bytes=0-1",
      `${server.url}/obj/${large}`,
    ]);
    expect(stdout).toMatch(/^HTTP\/1\.1 200 /u);
    expect(stdout).toMatch(new RegExp(`^content-length: ${content.length}\\r$`, "imu"));
    expect(stdout).toMatch(/^etag: "[0-9a-f-]+"\r$/imu);
    const empty = await getObject(server.url, "log_entries/audience=a/empty");
    expect([empty.status, empty.headers.get("content-length"), await empty.text()]).toEqual([200, "0", ""]);
  });

  it("keeps conditions", async () => {
    const etag = (await getObject(server.url, small)).headers.get("etag") ?? "";
    const same = await getObject(server.url, small, { "if-none-match": etag });
    expect([same.status, await same.text()]).toEqual([304, ""]);
    expect((await getObject(server.url, small, { "if-match": '"x"' })).status).toBe(412);
    const part = await getObject(server.url, small, { "if-range": etag, range: "bytes=1-2" });
    expect([part.status, await bytesOf(part)]).toEqual([206, smallContent.subarray(1, 3)]);
    const whole = await getObject(server.url, small, { "if-range": '"x"', range: "bytes=1-2" });
    expect([whole.status, (await bytesOf(whole)).length]).toEqual([200, 1000]);
  });

  it.each([
    ["a range outside of the object", `/obj/${small}`, { range: "bytes=1000-" }, 416, "RANGE_NOT_SATISFIABLE"],
    ["an object that is not there", "/obj/log_entries/none", {}, 404, "NOT_FOUND"],
    ["another prefix", "/obj/spans/audience=a/x", {}, 403, "FORBIDDEN"],
    ["a directory", "/obj/log_entries/audience=a", {}, 404, "NOT_FOUND"],
    ["no key", "/obj/", {}, 400, "BAD_REQUEST"],
    ["another path", "/objects", {}, 404, "NOT_FOUND"],
    ["no credentials", `/obj/${small}`, { authorization: "" }, 401, "UNAUTHENTICATED"],
    ["a wrong key", `/obj/${small}`, { authorization: `Bearer ${cacheKey}x` }, 401, "UNAUTHENTICATED"],
    ["a wrong key and no object", "/obj/..", { authorization: "Bearer x" }, 404, "NOT_FOUND"],
    ["a wrong key and no key of an object", "/obj/a//b", { authorization: "Bearer x" }, 401, "UNAUTHENTICATED"],
  ])("refuses %s", async (_name, target, headers, status, code) => {
    const response = await fetch(`${server.url}${target}`, {
      headers: { authorization: `Bearer ${cacheKey}`, ...headers },
    });
    expect([response.status, await response.json()]).toEqual([status, { code, message: expect.any(String) as string }]);
    expect(response.headers.get("www-authenticate")).toBe(status === 401 ? "Bearer" : null);
    expect(response.headers.get("content-range")).toBe(status === 416 ? "bytes */1000" : null);
  });

  it("lets no path lead out, as it was sent", async () => {
    for (const target of ["/obj/../../etc/passwd", "/obj/log_entries/../../data", "/obj/%2e%2e/%2e%2e/etc/passwd"]) {
      const args = ["-sS", "--path-as-is", "-H", `Authorization: Bearer ${cacheKey}`, `${server.url}${target}`];
      const { stdout } = await run("curl", args);
      expect(JSON.parse(stdout)).toEqual({ code: "BAD_REQUEST", message: "not a key of an object" });
    }
  });

  it("takes other methods for what they are", async () => {
    for (const [method, target, allow] of [
      ["PUT", `/obj/${small}`, "GET, HEAD"],
      ["DELETE", `/obj/${small}`, "GET, HEAD"],
      ["GET", "/prefetch", "POST"],
    ] as const) {
      const response = await fetch(`${server.url}${target}`, {
        method,
        headers: { authorization: `Bearer ${cacheKey}` },
      });
      expect([response.status, response.headers.get("allow")]).toEqual([405, allow]);
    }
    const { stdout } = await run("curl", [
      "-sS",
      "-w",
      " %{http_code}",
      "-X",
      "GET",
      "-d",
      "body",
      "-H",
      `Authorization: Bearer ${cacheKey}`,
      `${server.url}/obj/${small}`,
    ]);
    expect(stdout).toMatch(/BAD_REQUEST.* 400$/u);
  });

  it("fetches ahead", async () => {
    await world.add("log_entries/ahead", 3 * MiB);
    const prefetch = (body: string, headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`${server.url}/prefetch`, {
        method: "POST",
        body,
        headers: { authorization: `Bearer ${cacheKey}`, ...headers },
      });
    const response = await prefetch(
      `{"key":"log_entries/ahead","size":${3 * MiB},"ranges":[{"start":0,"length":${3 * MiB}}]}\n{"key":"spans/x","size":1}\n`,
    );
    expect([response.status, await response.json()]).toEqual([202, { queued: 1, forbidden: 1, dropped: 0 }]);
    await until(async () => (await metricOf(server.url, 'object_cache_prefetches_total{result="fetched"}')) === 1);
    const reads = 'object_cache_origin_requests_total{kind="read"}';
    const before = await metricOf(server.url, reads);
    expect((await bytesOf(await getObject(server.url, "log_entries/ahead"))).length).toBe(3 * MiB);
    expect(await metricOf(server.url, reads)).toBe(before);
    expect((await prefetch('{"key":"../x","size":1}')).status).toBe(400);
    expect((await prefetch("{}")).status).toBe(400);
    expect((await prefetch("x".repeat(MiB + 1))).status).toBe(413);
    expect((await prefetch("", { "content-encoding": "gzip" })).status).toBe(415);
    expect((await prefetch("", { authorization: "Bearer x" })).status).toBe(401);
  });

  it("sends no faster than its reader takes, to many at a time", async () => {
    const readWhole = async (): Promise<void> => {
      const response = await getObject(server.url, large);
      expect([response.status, (await bytesOf(response)).equals(content)]).toEqual([200, true]);
    };
    await Promise.all(Array.from({ length: 20 }, readWhole));
    const { hostname, port } = new URL(server.url);
    const socket = connect({ host: hostname, port: Number(port) });
    await once(socket, "connect");
    socket.pause();
    socket.write(`GET /obj/${large} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${cacheKey}\r\n\r\n`);
    // One other alone: who takes nothing for half a minute is cut off, and twenty may take that long.
    await readWhole();
    let received = 0;
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
    });
    socket.resume();
    await until(() => received > content.length);
    socket.destroy();
  });

  it("waits half a minute for a reader that takes nothing, not the ten seconds of a driver", async () => {
    const { hostname, port } = new URL(server.url);
    const socket = connect({ host: hostname, port: Number(port) });
    socket.pause();
    socket.write(`GET /obj/${large} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${cacheKey}\r\n\r\n`);
    await sleep(15_000);
    let received = 0;
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
    });
    socket.resume();
    await until(() => received > content.length || socket.closed);
    expect(received).toBeGreaterThan(content.length);
    socket.destroy();
  });

  it("refuses what is too much at a time, until some have left", async () => {
    await world.add("log_entries/huge", 32 * MiB);
    const { hostname, port } = new URL(server.url);
    const sockets = Array.from({ length: 256 }, () => {
      const socket = connect({ host: hostname, port: Number(port) });
      socket.pause();
      socket.on("error", () => undefined);
      socket.write(`GET /obj/log_entries/huge HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${cacheKey}\r\n\r\n`);
      return socket;
    });
    const refusal: { headers: Headers | null } = { headers: null };
    await until(async () => {
      const response = await getObject(server.url, small);
      await response.arrayBuffer();
      refusal.headers = response.headers;
      return response.status === 503;
    });
    expect(Number(refusal.headers?.get("retry-after"))).toBeGreaterThan(0);
    // Who reads slowly leaves answers for the other callers.
    const authorization = "Bearer key-of-somebody-else-0123456789";
    for (let i = 0; i < 20; i++) {
      const others = await getObject(server.url, small, { authorization });
      expect([others.status, (await bytesOf(others)).equals(smallContent)]).toEqual([200, true]);
    }
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    for (const socket of sockets) {
      socket.destroy();
    }
    await until(async () => (await bytesOf(await getObject(server.url, small))).equals(smallContent));
  });

  it("is well, and counts", async () => {
    for (const name of ["health", "ready"]) {
      expect((await fetch(`${server.url}/${name}`)).status).toBe(200);
    }
    expect(await metricOf(server.url, 'object_cache_requests_total{operation="get",status="206"}')).toBeGreaterThan(2);
    expect(await metricOf(server.url, "object_cache_sent_bytes_total")).toBeGreaterThan(20 * content.length);
    expect(server.output()).not.toContain(cacheKey);
  });
});

describe("a restart", () => {
  it("keeps blocks; what is damaged is fetched again; kill -9 loses nothing but time", async () => {
    const world = await createCacheWorld();
    try {
      const content = await world.add(large, 5 * MiB);
      const first = await world.start();
      expect((await bytesOf(await getObject(first.url, large))).equals(content)).toBe(true);
      await until(async () => (await metricOf(first.url, 'object_cache_bytes{tier="disk"}')) === 5 * MiB);
      await expect(world.start()).rejects.toThrow(/is in use by another instance.*SVC_OBJECT_CACHE_DIR/su);
      expect(await first.end("SIGKILL")).toBeNull();
      // The origin is away: what is here is enough.
      await rm(world.lake, { recursive: true });
      const second = await world.start();
      // It is not the one to make the directory of the store.
      await expect(stat(world.lake)).rejects.toMatchObject({ code: "ENOENT" });
      expect((await fetch(`${second.url}/ready`)).status).toBe(503);
      expect((await bytesOf(await getObject(second.url, large))).equals(content)).toBe(true);
      expect(await metricOf(second.url, 'object_cache_blocks_total{from="disk"}')).toBe(5);
      expect(await second.end("SIGTERM")).toBe(0);
      const [block = ""] = await world.blocks();
      await truncate(block, 1000);
      await world.add(large, 5 * MiB);
      const third = await world.start();
      expect((await bytesOf(await getObject(third.url, large))).length).toBe(5 * MiB);
      expect(await metricOf(third.url, 'object_cache_blocks_total{from="origin"}')).toBe(1);
    } finally {
      await world.remove();
    }
  });

  it("names the option of a directory whose blocks cannot be read", async () => {
    const world = await createCacheWorld();
    try {
      const file = path.join(world.directory, "data", "object-cache", "blocks");
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, "");
      await expect(world.start()).rejects.toThrow(/ended with 1.*cannot be used \(SVC_OBJECT_CACHE_DIR\)/su);
    } finally {
      await world.remove();
    }
  });

  it("without keys is no start", async () => {
    const world = await createCacheWorld();
    try {
      await expect(world.start({ SVC_API_KEYS: "" })).rejects.toThrow(/ended with 1.*SVC_API_KEYS=/su);
      await expect(world.start({ SVC_API_KEYS: '[{"name":"a"}]' })).rejects.toThrow(/ended with 2.*entry 0\.key/su);
    } finally {
      await world.remove();
    }
  });
});

it("says that it is not ready while the origin is away, and what left there leaves here", async () => {
  const world = await createCacheWorld();
  try {
    const content = await world.add(large, MiB);
    const server = await world.start({ SVC_OBJECT_CACHE_TTL_SECONDS: "1" });
    expect((await bytesOf(await getObject(server.url, large))).equals(content)).toBe(true);
    await rm(world.lake, { recursive: true });
    expect((await fetch(`${server.url}/ready`)).status).toBe(503);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    await until(async () => (await getObject(server.url, large)).status === 404);
    await until(async () => (await world.blocks()).length === 0);
  } finally {
    await world.remove();
  }
});
