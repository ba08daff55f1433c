/** Maps: files that come in and go out in parts, on both drivers. */
import { readdir, rm } from "node:fs/promises";
import path from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { drivers } from "../../helpers/http/http-listener.js";
import { rawRequest } from "../../helpers/http/raw-http.js";
import { createTestLake, type TestLake } from "../../helpers/lake/lake.js";
import { useWeb } from "../../helpers/web/web-fixture.js";
import type { TestWeb } from "../../helpers/web/web-server.js";

const t = useWeb();
const glb = "model/gltf-binary";

/** A binary glTF file with a chunk of JSON, and one of `bytes` of anything. */
function mapOf(bytes: number, fill = 7): Buffer {
  const json = Buffer.from('{"asset":{"version":"2.0"}}  ');
  const head = Buffer.alloc(20);
  head.write("glTF", 0, "latin1");
  head.writeUInt32LE(2, 4);
  head.writeUInt32LE(20 + json.length + 8 + bytes, 8);
  head.writeUInt32LE(json.length, 12);
  head.write("JSON", 16, "latin1");
  const binary = Buffer.alloc(8);
  binary.writeUInt32LE(bytes, 0);
  binary.write("BIN\0", 4, "latin1");
  return Buffer.concat([head, json, binary, Buffer.alloc(bytes, fill)]);
}

describe.each(drivers)("with the driver %s", (driver) => {
  let lake: TestLake;
  let web: TestWeb;
  beforeAll(async () => {
    lake = await createTestLake();
    web = await t.start({
      admins: ["admin@example.com"],
      environment: { SVC_HTTP_DRIVER: driver, SVC_OBJECT_STORE_URI: lake.uri },
    });
  });
  afterAll(async () => {
    await web.stop();
    await lake.remove();
  });

  const send = (method: string, file: string, body?: Buffer, headers: Record<string, string> = {}, cookie = t.admin) =>
    fetch(`${web.url}/api/maps/${file}`, {
      method,
      headers: {
        cookie,
        origin: new URL(web.url).origin,
        ...(body === undefined ? {} : { "content-type": glb }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: new Uint8Array(body) }),
    });
  const objects = async (): Promise<string[]> => await readdir(path.join(lake.directory, "web/maps")).catch(() => []);

  it("keeps a large file, gives it out as it came, and lists it", async () => {
    const file = mapOf(20 * 1024 * 1024);
    const saved = await send("PUT", "world.glb", file);
    expect(saved.status).toBe(201);
    expect(await saved.json()).toMatchObject({
      file: "world.glb",
      bytes: file.length,
      updated_by: "admin@example.com",
    });
    const read = await send("GET", "world.glb", undefined, {}, t.ann);
    expect(read.status).toBe(200);
    expect(Object.fromEntries(read.headers)).toMatchObject({
      "content-type": glb,
      "x-content-type-options": "nosniff",
      "content-security-policy": expect.stringContaining("sandbox"),
      "content-disposition": 'attachment; filename="world.glb"',
    });
    expect(Buffer.from(await read.arrayBuffer()).equals(file)).toBe(true);
    const measured = await send("HEAD", "world.glb");
    expect([measured.status, measured.headers.get("content-length")]).toEqual([200, String(file.length)]);
    const tag = read.headers.get("etag") ?? "";
    for (const known of [tag, `W/${tag}`, `"another", ${tag}`, "*"]) {
      const again = await send("GET", "world.glb", undefined, { "if-none-match": known });
      expect([known, again.status, await again.text()]).toEqual([known, 304, ""]);
    }
    expect((await send("HEAD", "world.glb", undefined, { "if-none-match": '"another"' })).status).toBe(200);
    const list = await web.request("GET", "/api/maps", { cookie: t.ann });
    expect(list.json).toMatchObject([{ file: "world.glb", bytes: file.length }]);
  });

  it("leaves one object of a map that was saved twice, and none of one that was deleted", async () => {
    expect((await send("PUT", "twice.glb", mapOf(10, 1))).status).toBe(201);
    const before = await objects();
    const second = mapOf(11, 2);
    expect((await send("PUT", "twice.glb", second)).status).toBe(200);
    expect(await objects()).toHaveLength(before.length);
    const read = await send("GET", "twice.glb");
    expect(Buffer.from(await read.arrayBuffer()).equals(second)).toBe(true);
    expect((await send("DELETE", "twice.glb")).status).toBe(204);
    expect(await objects()).toHaveLength(before.length - 1);
    expect((await send("GET", "twice.glb")).status).toBe(404);
    expect((await send("DELETE", "twice.glb")).status).toBe(404);
    const audit = await web.request("GET", "/api/audit?limit=3", { cookie: t.admin });
    expect(audit.json).toMatchObject([{ action: "map.delete" }, { action: "map.save" }, { action: "map.save" }]);
  });

  it("answers that an object is gone, and goes on, when somebody has removed it", async () => {
    const before = await objects();
    expect((await send("PUT", "lost.glb", mapOf(10, 3))).status).toBe(201);
    const [own = ""] = (await objects()).filter((name) => !before.includes(name));
    await rm(path.join(lake.directory, "web/maps", own));
    const answer = await send("GET", "lost.glb");
    expect([answer.status, await answer.json()]).toMatchObject([500, { code: "INTERNAL" }]);
    expect((await send("DELETE", "lost.glb")).status).toBe(204);
  });

  it.each([
    ["text", Buffer.from("<script>alert(1)</script> and more than twenty bytes")],
    ["a file of version 1", Buffer.concat([Buffer.from("glTF\u0001\0\0\0"), mapOf(0).subarray(8)])],
    ["a short file", mapOf(100).subarray(0, -1)],
    ["a long file", Buffer.concat([mapOf(100), Buffer.from("more")])],
    ["a few bytes", Buffer.from("glTF")],
  ])("refuses %s and keeps nothing of it", async (_what, body) => {
    const before = await objects();
    const answer = await send("PUT", "bad.glb", body);
    expect([answer.status, await answer.json()]).toMatchObject([400, { code: "BAD_REQUEST" }]);
    expect(await objects()).toEqual(before);
    expect((await send("GET", "bad.glb")).status).toBe(404);
  });

  it("refuses more than 64 MiB before they are sent, and as they come", async () => {
    const { port } = web.server.address;
    const head = (fields: string) =>
      `PUT /api/maps/huge.glb HTTP/1.1\r\nHost: localhost\r\nCookie: ${t.admin}\r\nOrigin: http://127.0.0.1:${port}\r\nContent-Type: ${glb}\r\n${fields}\r\n\r\n`;
    const announced = await rawRequest(port, [head(`Content-Length: ${64 * 1024 * 1024 + 1}`)]);
    expect(announced.responses[0]?.status).toBe(413);
    expect((await objects()).filter((name) => name.startsWith("."))).toEqual([]);
  });

  it.each(["..%2f..%2fetc%2fpasswd", "a%00.glb", "a.gltf", ".glb", "a%2fb.glb", "..glb", `${"x".repeat(97)}.glb`])(
    "has no file like %s",
    async (file) => {
      for (const method of ["GET", "PUT", "DELETE"]) {
        const answer = await send(method, file, method === "PUT" ? mapOf(1) : undefined);
        expect([method, answer.status]).toEqual([method, 400]);
        await answer.text();
      }
    },
  );

  it("is changed by administrators, from this origin, as the type that it is", async () => {
    const guest = await send("PUT", "g.glb", mapOf(1), {}, t.ann);
    expect(guest.status).toBe(403);
    expect((await send("DELETE", "world.glb", undefined, {}, t.ann)).status).toBe(403);
    expect((await send("PUT", "g.glb", mapOf(1), {}, "")).status).toBe(401);
    expect((await send("GET", "world.glb", undefined, {}, "")).status).toBe(401);
    expect((await send("PUT", "g.glb", mapOf(1), { origin: "https://evil.example" })).status).toBe(403);
    expect((await send("PUT", "g.glb", mapOf(1), { "content-type": "application/json" })).status).toBe(415);
  });

  it("forgets a file whose sender leaves in the middle", async () => {
    const before = await objects();
    const leaving = new AbortController();
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(mapOf(1000).subarray(0, 500));
        setTimeout(() => leaving.abort(), 20);
        return new Promise(() => undefined);
      },
    });
    const request = fetch(`${web.url}/api/maps/half.glb`, {
      method: "PUT",
      headers: { cookie: t.admin, origin: new URL(web.url).origin, "content-type": glb },
      body,
      duplex: "half",
      signal: leaving.signal,
    });
    await expect(request).rejects.toMatchObject({ name: "AbortError" });
    await expect.poll(objects).toEqual(before);
  });
});
