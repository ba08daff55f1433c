/** What the object cache takes for a store that can be read. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { openObjectStore } from "../../src/lake/store/open-store.js";
import { withEndpoint } from "../../src/lake/store/s3-address.js";
import { openS3Store } from "../../src/lake/store/s3-store.js";
import { type Origin, originOf } from "../../src/object-cache/origin.js";

/** Says what a `GET` gets, or `silence`; a `HEAD` has the status alone. */
let answer: { readonly status: number; readonly code: string } = { status: 200, code: "" };
let server: Server;
let origin: Origin;

beforeEach(async () => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "a");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "b");
  vi.stubEnv("AWS_REGION", "us-east-1");
  server = createServer((request, response) => {
    if (answer.code === "silence") {
      return;
    }
    const body = answer.code === "" ? "x" : `<Error><Code>${answer.code}</Code><Message>m</Message></Error>`;
    const ofRange = answer.status === 206 ? { etag: '"x"', "content-range": "bytes 0-0/1" } : {};
    response.writeHead(answer.status, { "content-length": body.length, ...ofRange });
    response.end(request.method === "HEAD" ? undefined : body);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  origin = originOf(await openS3Store(withEndpoint("s3://lake/deep", `http://127.0.0.1:${port}`)));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  server.closeAllConnections();
  await new Promise((resolve) => {
    server.close(resolve);
  });
});

it.each([
  [206, ""],
  [404, "NoSuchKey"],
  [416, "InvalidRange"],
])("can be read when a bucket answers %i %s", async (status, code) => {
  answer = { status, code };
  await expect(origin.probe()).resolves.toBeUndefined();
});

it.each([
  [404, "NoSuchBucket", "there is no such bucket"],
  [403, "AccessDenied", "it denies access"],
  [200, "silence", "the object store cannot be read: no answer comes"],
])("cannot be read when it answers %i %s", async (status, code, sentence) => {
  answer = { status, code };
  await expect(origin.probe()).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining(sentence) as string,
  });
});

it("cannot be read where there is no directory, which is not made, and can as soon as there is one", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-origin-"));
  const lake = path.join(directory, "a", "lake");
  const files = originOf(await openObjectStore(pathToFileURL(lake).href, { make: false }));
  await expect(files.probe()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(existsSync(path.dirname(lake))).toBe(false);
  await mkdir(path.dirname(lake));
  await writeFile(lake, "");
  await expect(files.probe()).rejects.toThrow("is no directory");
  await rm(lake);
  await mkdir(lake);
  await expect(files.probe()).resolves.toBeUndefined();
  await rm(directory, { recursive: true });
});
