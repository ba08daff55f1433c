/** The addresses and paths of OTLP/HTTP, and the browsers that may use them. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";

import { drivers } from "../../helpers/http/http-listener.js";
import { rawRequest } from "../../helpers/http/raw-http.js";
import { freshMark, jsonLogs, protobufLogs } from "../../helpers/otlp/otlp-bodies.js";
import { startTestIngestion, type TestIngestion } from "../../helpers/servers/ingest-server.js";
import { runProgram } from "../../helpers/servers/monolith.js";

const page = "https://app.example.com";
const maxBodyBytes = 100_000;

const prefixes = ["", "/ingestion/otlp"] as const;
const signals = ["logs", "metrics", "traces"] as const;
const paths = prefixes.flatMap((prefix) => signals.map((signal) => `${prefix}/v1/${signal}`));

describe.each([...drivers.map((driver) => [driver, 1] as const), ["uws", 2] as const])(
  "%s, %i acceptor(s)",
  (driver, acceptors) => {
    let t: TestIngestion;
    /** Both addresses. */
    let urls: readonly string[];

    beforeAll(async () => {
      t = await startTestIngestion({
        environment: {
          SVC_HTTP_DRIVER: driver,
          SVC_INGESTION_ACCEPTORS: String(acceptors),
          SVC_OTLP_HTTP_LISTEN: "127.0.0.1:0",
          SVC_LOG_LEVEL: "silent",
          SVC_OTLP_MAX_BODY_BYTES: String(maxBodyBytes),
          SVC_INGESTION_CORS_ORIGINS: `${page}, capacitor://localhost`,
        },
      });
      urls = [t.url, `http://127.0.0.1:${t.server.otlpHttpAddress?.port}`];
    });
    afterAll(async () => {
      await t.stop();
    });

    const json = (): Record<string, string> => ({
      authorization: `Bearer ${t.key}`,
      "content-type": "application/json",
    });

    async function corsOf(url: string, path: string, init: RequestInit): Promise<Record<string, unknown>> {
      const response = await fetch(url + path, { method: "POST", ...init });
      await response.arrayBuffer();
      return {
        status: response.status,
        origin: response.headers.get("access-control-allow-origin"),
        vary: response.headers.get("vary"),
      };
    }

    test("an exporter that knows nothing but endpoint and key sends to the usual port", async () => {
      const text = freshMark();
      const sent = await runProgram("test/helpers/otlp/otlp-sender.js", [text], {
        env: {
          OTEL_EXPORTER_OTLP_ENDPOINT: urls[1] ?? "",
          OTEL_EXPORTER_OTLP_HEADERS: `Authorization=Bearer%20${t.key}`,
        },
      });
      expect(sent).toEqual({ code: 0, stdout: "", stderr: "" });
      expect(await t.rows("log_entries", `select msg from t where msg = '${text}'`)).toEqual([{ msg: text }]);
      expect(await t.rows("spans", `select name from t where name = '${text}'`)).toEqual([{ name: text }]);
    });

    test("every path takes telemetry at every address", async () => {
      for (const url of urls) {
        for (const path of paths) {
          const response = await fetch(url + path, { method: "POST", headers: json(), body: "{}" });
          expect([url, path, response.status, await response.text()]).toEqual([url, path, 200, "{}"]);
        }
      }
    });

    test("every address and path judges alike: credential, size, type, method, framing", async () => {
      for (const url of urls) {
        for (const path of paths) {
          const post = async (headers: Record<string, string>, body: Buffer | string): Promise<number> =>
            (await fetch(url + path, { method: "POST", headers, body })).status;
          const type = { "content-type": "application/json" };
          const statuses = [
            await post(type, "{}"),
            await post(json(), Buffer.alloc(maxBodyBytes + 1)),
            await post({ ...json(), "content-type": "text/plain" }, "{}"),
            (await fetch(url + path)).status,
          ];
          const { port } = new URL(url);
          const smuggled = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx`;
          const { responses } = await rawRequest(Number(port), [smuggled], 0);
          expect([url, path, ...statuses, responses[0]?.status]).toEqual([url, path, 401, 413, 415, 405, 400]);
        }
        expect((await fetch(`${url}/health`)).status).toBe(200);
        expect((await fetch(`${url}/v1/profiles`, { method: "POST" })).status).toBe(404);
      }
    });

    describe("browsers", () => {
      /** As browsers ask before a page sends with a key. */
      const preflight = (url: string, path: string, origin: string): Promise<Response> =>
        fetch(url + path, {
          method: "OPTIONS",
          headers: {
            origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-encoding,content-type",
          },
        });

      test("a page of an allowed origin asks, and sends what it then may", async () => {
        for (const url of urls) {
          for (const path of paths) {
            const asked = await preflight(url, path, page);
            expect([asked.status, await asked.text()]).toEqual([204, ""]);
            expect(Object.fromEntries(asked.headers)).toMatchObject({
              "access-control-allow-origin": page,
              "access-control-allow-methods": "POST",
              "access-control-allow-headers": "authorization, content-type, content-encoding",
              "access-control-max-age": "7200",
              vary: "Origin",
            });
            expect(asked.headers.has("access-control-allow-credentials")).toBe(false);
          }
          const mark = freshMark();
          const sent = await fetch(`${url}/v1/logs`, {
            method: "POST",
            headers: { ...json(), origin: page },
            body: jsonLogs(mark),
          });
          expect(sent.status).toBe(200);
          expect(sent.headers.get("access-control-allow-origin")).toBe(page);
          expect(sent.headers.get("access-control-expose-headers")).toBe("Retry-After");
          expect(sent.headers.get("vary")).toBe("Origin");
          expect(await t.rows("log_entries", `select msg from t where msg = '${mark} 0'`)).toHaveLength(1);
        }
      });

      test("the page reads what is wrong", async () => {
        const origin = "capacitor://localhost";
        const shared = { origin, vary: "Origin" };
        const [url = ""] = urls;
        const type = "application/json";
        const refused = (headers: Record<string, string>, body = "{}", path = "/v1/logs"): Promise<unknown> =>
          corsOf(url, path, { headers: { origin, ...headers }, body });
        expect(await refused({ "content-type": type })).toEqual({ status: 401, ...shared });
        expect(await refused(json(), "{")).toEqual({ status: 400, ...shared });
        expect(await refused(json(), "x".repeat(maxBodyBytes + 1))).toEqual({ status: 413, ...shared });
        expect(await refused(json(), "{}", "/v1/log")).toEqual({ status: 404, ...shared });
        const doubtful = `POST /v1/logs HTTP/1.1\r\nHost: x\r\nOrigin: ${origin}\r\nTransfer-Encoding: x\r\n\r\n`;
        const { responses } = await rawRequest(t.port, [doubtful], 0);
        expect([responses[0]?.status, responses[0]?.headers["access-control-allow-origin"]]).toEqual([400, origin]);
      });

      test("other origins are told nothing, and their telemetry is judged by its key like others'", async () => {
        for (const origin of ["https://other.example.com", "http://app.example.com", `${page}.evil.com`, "null", "*"]) {
          const asked = await preflight(t.url, "/v1/logs", origin);
          expect([origin, asked.status, asked.headers.get("allow")]).toEqual([origin, 405, "POST"]);
          expect(await asked.text()).toContain("SVC_INGESTION_CORS_ORIGINS");
          expect(asked.headers.has("access-control-allow-origin")).toBe(false);
          const nothing = { origin: null, vary: null };
          const headers = { ...json(), origin };
          expect(await corsOf(t.url, "/v1/logs", { headers, body: "{}" })).toEqual({ status: 200, ...nothing });
        }
        const none = { method: "OPTIONS", headers: { origin: page } };
        expect((await fetch(`${t.url}/v1/logs`, none)).status).toBe(405);
      });
    });
  },
);

describe("one that is off or taken", () => {
  test("no address, no origins: one listener, and no answer names an origin", async () => {
    const t = await startTestIngestion({ environment: { SVC_OTLP_HTTP_LISTEN: "" } });
    onTestFinished(() => t.stop());
    expect(t.server.otlpHttpAddress).toBeNull();
    const sent = await t.post("logs", protobufLogs(freshMark()), { origin: page });
    expect(sent.status).toBe(200);
    expect(sent.headers.has("vary")).toBe(false);
    expect(sent.headers.has("access-control-allow-origin")).toBe(false);
  });

  test.each([
    ["uws", "1"],
    ["uws", "2"],
    ["node", "1"],
  ])("%s with %s acceptor(s): taken, it is an error that names the option, or tolerated", async (driver, acceptors) => {
    const other = createServer();
    other.listen(0, "127.0.0.1");
    await once(other, "listening");
    try {
      const environment = {
        SVC_HTTP_DRIVER: driver,
        SVC_INGESTION_ACCEPTORS: acceptors,
        SVC_OTLP_HTTP_LISTEN: `127.0.0.1:${(other.address() as AddressInfo).port}`,
      };
      const t = await startTestIngestion({ environment, toleratesTaken: true });
      onTestFinished(() => t.stop());
      expect(t.server.otlpHttpAddress).toBeNull();
      expect((await t.post("logs", protobufLogs(freshMark()))).status).toBe(200);
      await expect(startTestIngestion({ beside: t, environment })).rejects.toThrow(
        /cannot listen on 127\.0\.0\.1:\d+ for telemetry.*SVC_OTLP_HTTP_LISTEN to another, or to the empty string/,
      );
    } finally {
      other.close();
    }
  });
});
