/** How the web server serves the web application. */
import { request } from "node:http";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { useWeb } from "../../helpers/web/web-fixture.js";
import type { TestWeb } from "../../helpers/web/web-server.js";

const t = useWeb();

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** Unlike fetch it leaves paths and encodings alone. */
function ask(
  url: string,
  path: string,
  o: { method?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, method: o.method ?? "GET", headers: o.headers ?? {} }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}

describe.each(["uws", "node"])("by the driver %s", (driver) => {
  let server: TestWeb;
  let script: string;
  beforeAll(async () => {
    server = await t.beside({ SVC_HTTP_DRIVER: driver, SVC_BASE_PATH: "/telemetry" });
    const page = (await ask(server.url, "/telemetry/")).body.toString();
    script = `/telemetry/${/src="\.\/(assets\/[^"]+\.js)"/.exec(page)?.[1] ?? ""}`;
  });
  afterAll(() => server.stop());

  it("answers every path of a page with the page, under the base path, kept by nobody", async () => {
    for (const path of ["/telemetry/", "/telemetry/traces/abc", "/telemetry/sql?sql=SELECT+1", "/telemetry/a.b.c"]) {
      const { status, headers, body } = await ask(server.url, path);
      expect([path, status, headers["cache-control"], headers["content-type"]]).toEqual([
        path,
        200,
        "no-store",
        "text/html; charset=utf-8",
      ]);
      expect(body.toString()).toContain('<base href="/telemetry/"');
    }
  });

  it("lets its pages run its own scripts and styles alone, and be framed by nobody", async () => {
    for (const path of ["/telemetry/", script]) {
      const { headers } = await ask(server.url, path);
      expect(headers["content-security-policy"]).toBe(
        "default-src 'self'; base-uri 'self'; object-src 'none'; form-action 'self'; frame-ancestors 'none'",
      );
      expect(headers["x-content-type-options"]).toBe("nosniff");
    }
  });

  it("sends assets as small as the browser takes them, to be kept for good", async () => {
    const plain = await ask(server.url, script);
    expect(plain.headers).toMatchObject({
      "content-type": "text/javascript; charset=utf-8",
      "cache-control": "public, max-age=31536000, immutable",
      vary: "Accept-Encoding",
    });
    expect(plain.headers["content-encoding"]).toBeUndefined();
    for (const [accepted, coding, unpack] of [
      ["gzip, deflate, br, zstd", "br", brotliDecompressSync],
      ["gzip;q=0.5, br;q=0", "gzip", gunzipSync],
    ] as const) {
      const { headers, body } = await ask(server.url, script, { headers: { "accept-encoding": accepted } });
      expect(headers["content-encoding"]).toBe(coding);
      expect(unpack(body).equals(plain.body)).toBe(true);
      expect(body.length).toBeLessThan(plain.body.length / 2);
    }
  });

  it("answers HEAD with the fields and the length of GET", async () => {
    for (const path of ["/telemetry/", script]) {
      const [get, head] = [await ask(server.url, path), await ask(server.url, path, { method: "HEAD" })];
      expect([head.status, head.body.length, head.headers["content-length"]]).toEqual([200, 0, `${get.body.length}`]);
    }
  });

  it("finds nothing outside of the application, and no page where an API or an asset is missing", async () => {
    for (const path of [
      "/telemetry/assets/../../package.json",
      "/telemetry/assets/..%2f..%2fpackage.json",
      "/telemetry/assets/none.js",
      "/telemetry/assets/",
      "/telemetry/assets/index.html",
      `${script}.br`,
      "/telemetry/api",
      "/telemetry/api/none",
      "/telemetry/auth/none",
      "/other",
    ]) {
      const { status, body } = await ask(server.url, path);
      expect([path, status, (JSON.parse(body.toString()) as { code: string }).code]).toEqual([path, 404, "NOT_FOUND"]);
    }
    expect((await ask(server.url, "/telemetry/../../../etc/passwd")).body.toString()).not.toContain("root:");
    expect((await ask(server.url, "/telemetry/sql", { method: "POST" })).status).toBe(404);
  });

  it("leads from the base path without its slash to the application", async () => {
    const { status, headers } = await ask(server.url, "/telemetry");
    expect([status, headers["location"]]).toEqual([302, "/telemetry/"]);
  });

  it("shows browsers the page of metrics and scrapers the metrics", async () => {
    const accept = "text/html,application/xhtml+xml,*/*;q=0.8";
    const page = await ask(server.url, "/telemetry/metrics", { headers: { accept } });
    expect(page.body.toString()).toContain("<!doctype html>");
    for (const other of ["", "*/*", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"]) {
      const { body } = await ask(server.url, "/telemetry/metrics", { headers: { accept: other } });
      expect(body.toString()).toContain("# TYPE web_requests_total counter");
    }
  });
});
