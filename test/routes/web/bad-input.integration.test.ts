/** Requests that are wrong: each gets the exact code, and a message that says what to change. */
import { describe, expect, it } from "vitest";

import { createKeyAuthenticator } from "../../../src/auth/keys/key-authenticator.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { makeSigningKey, signToken } from "../../helpers/auth/auth-oidc-provider.js";
import { RawConnection, rawRequest } from "../../helpers/http/raw-http.js";
import { routes, useWeb } from "../../helpers/web/web-fixture.js";
import type { WebAnswer, WebRequestOptions } from "../../helpers/web/web-server.js";

const { ingestion } = routes;

const t = useWeb();

const post = (body: unknown, o: WebRequestOptions = {}): Promise<WebAnswer> =>
  t.web.request("POST", ingestion, { cookie: t.admin, body, ...o });

/** What an answer lacks of being exactly this refusal. */
function refusalProblems(answer: WebAnswer, status: number, code: string, message?: RegExp): string[] {
  const problems: string[] = [];
  const type = answer.headers.get("content-type");
  if (answer.status !== status) {
    problems.push(`status ${answer.status}`);
  }
  if (answer.json.code !== code) {
    problems.push(`code ${answer.json.code}`);
  }
  if (type !== "application/json") {
    problems.push(`type ${type}`);
  }
  if (Object.keys(answer.json).join() !== "code,message") {
    problems.push(answer.text);
  }
  if (!(message ?? /./).test(answer.json.message)) {
    problems.push(answer.json.message);
  }
  return problems;
}

describe("names", () => {
  it.each([
    ["no name", { audience: "a" }, /name is missing/],
    ["an empty name", { name: "" }, /name must not be empty/],
    ["only spaces", { name: "   " }, /name must be more than white space/],
    ["only white space", { name: "\t\n\u00a0\u2003" }, /name must be more than white space/],
    ["256 bytes", { name: "x".repeat(256) }, /at most 255 bytes/],
    ["256 bytes in 128 characters", { name: "é".repeat(128) }, /at most 255 bytes/],
    ["a NUL byte", { name: "a\0b" }, /without NUL/],
    ["a lone surrogate", { name: "a\ud800" }, /valid Unicode/],
    ["a number", { name: 7 }, /name must be a string/],
    ["null", { name: null }, /name must be a string/],
    ["an array", { name: ["k"] }, /name must be a string/],
  ])("with %s are 400", async (_what, body, message) => {
    expect(refusalProblems(await post(body), 400, "BAD_REQUEST", message)).toEqual([]);
    const { audience: _audience, ...analytics } = body as { audience?: string };
    const answer = await t.web.request("POST", "/api/analytics-api-keys", {
      cookie: t.admin,
      body: analytics,
    });
    expect(refusalProblems(answer, 400, "BAD_REQUEST", message)).toEqual([]);
  });
});

describe("audiences", () => {
  const outside = Array.from({ length: 256 }, (_, i) => String.fromCharCode(i)).filter(
    (char) => !/[A-Za-z0-9_-]/.test(char),
  );

  it("with any one character outside the pattern are 400, at any place", async () => {
    for (const char of [...outside, "\u017f", "\u212a", "a\u0301", "🔑", "\u2028"]) {
      for (const audience of [char, `a${char}`, `${char}a`, `a${char}a`]) {
        const answer = await post({ name: "k", audience });
        expect([audience, answer.status, answer.json.code]).toEqual([audience, 400, "BAD_REQUEST"]);
      }
    }
  });

  it.each([
    ["empty", "", /must not be empty/],
    ["with a trailing newline", "team\n", /letters, digits, _ and - only/],
    ["of 256 characters", "a".repeat(256), /at most 255/],
    ["that is a list", ["a", "b"], /must be a string/],
  ])("%s are 400", async (_what, audience, message) => {
    expect(refusalProblems(await post({ name: "k", audience }), 400, "BAD_REQUEST", message)).toEqual([]);
  });

  it("of 255 characters are taken", async () => {
    expect((await post({ name: "k", audience: "a".repeat(255) })).status).toBe(201);
  });
});

describe("limit and offset", () => {
  it.each([
    ["limit=0", 400],
    ["limit=-1", 400],
    ["limit=501", 200],
    ["limit=abc", 400],
    ["limit=1e9", 400],
    ["limit=1000000000", 200],
    ["limit=", 400],
    ["limit=1.5", 400],
    ["limit=0x10", 400],
    ["limit=%201", 400],
    ["limit=5&limit=6", 400],
    ["offset=-1", 400],
    ["offset=abc", 400],
    ["offset=99999999999999999999999", 200],
    ["include_revoked=yes", 400],
    ["include_revoked=0", 200],
    ["include_revoked=1", 200],
    ["include_revoked=2", 400],
    ["include_revoked=", 400],
    ["include_revoked=true&include_revoked=false", 400],
    ["limits=5", 400],
    ["__proto__=1", 400],
    ["limit=%FF", 400],
  ])("?%s is %i", async (query, status) => {
    for (const path of [ingestion, "/api/analytics-api-keys"]) {
      const answer = await t.web.request("GET", `${path}?${query}`, { cookie: t.admin });
      expect(answer.status).toBe(status);
      expect(status === 200 ? "BAD_REQUEST" : answer.json.code).toBe("BAD_REQUEST");
    }
  });
});

describe("bodies", () => {
  it.each([
    ["unknown fields", { name: "k", admin: true }, /unknown field "admin"; this route takes name/],
    ["__proto__", '{"name": "k", "__proto__": {}}', /unknown field "__proto__"/],
    ["no JSON", "name=k", /must be a JSON object/],
    ["cut-off JSON", '{"name": "k"', /must be a JSON object/],
    ["nothing", "", /must be a JSON object/],
    ["an array", "[]", /must be a JSON object; this route takes/],
    ["a text", '"k"', /must be a JSON object; this route takes/],
    ["null", "null", /must be a JSON object; this route takes/],
    ["broken UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), /in UTF-8/],
    ["deep nesting", `{"name": ${"[".repeat(100_000)}${"]".repeat(100_000)}}`, /./],
  ])("of %s are 400", async (_what, body, message) => {
    expect(refusalProblems(await post(body), 400, "BAD_REQUEST", message)).toEqual([]);
  });

  it("over 1 MiB are 413, announced or not, and the server goes on", async () => {
    for (const megabytes of [1.01, 10]) {
      const body = `{"name": "${"x".repeat(megabytes * 1024 * 1024)}"}`;
      expect(refusalProblems(await post(body), 413, "PAYLOAD_TOO_LARGE", /larger than 1048576 bytes/)).toEqual([]);
    }
    const chunk = `${(600 * 1024).toString(16)}\r\n${"x".repeat(600 * 1024)}\r\n`;
    const { responses, closed } = await rawRequest(t.web.server.address.port, [
      `POST ${ingestion} HTTP/1.1\r\nHost: x\r\nCookie: ${t.admin}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
      chunk,
      chunk,
    ]);
    expect([responses[0]?.status, closed]).toEqual([413, true]);
    expect((await post({ name: "k", audience: "after" })).status).toBe(201);
  });

  it("of just under 1 MiB are read whole", async () => {
    const padded = `{"name": "k", "audience": "padded"${" ".repeat(1024 * 1024 - 60)}}`;
    expect((await post(padded)).status).toBe(201);
  });

  it.each(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json5"])(
    "of type %s are 415",
    async (type) => {
      const answer = await post('{"name": "k"}', { headers: { "content-type": type } });
      expect(refusalProblems(answer, 415, "UNSUPPORTED_MEDIA_TYPE", /application\/json/)).toEqual([]);
    },
  );

  it("may name parameters of their type, but no encoding", async () => {
    const typed = { "content-type": "Application/JSON; charset=utf-8" };
    expect((await post({ name: "k", audience: "typed" }, { headers: typed })).status).toBe(201);
    const zipped = await post("x", {
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
    });
    expect(refusalProblems(zipped, 415, "UNSUPPORTED_MEDIA_TYPE", /identity/)).toEqual([]);
  });
});

describe("key ids", () => {
  it.each([
    "x",
    "00000000-0000-0000-0000-00000000000",
    "{00000000-0000-4000-8000-000000000000}",
    "00000000000040008000000000000000",
    "00000000-0000-4000-8000-000000000000%00",
    "00000000-0000-4000-8000-000000000000'--",
    "%2e%2e%2f",
    "🔑",
    "x".repeat(3000),
  ])("that are no UUID are unknown: 404 (%#)", async (id) => {
    for (const path of [ingestion, "/api/analytics-api-keys"]) {
      const answer = await t.web.request("DELETE", `${path}/${id}`, { cookie: t.admin });
      // A NUL is no text at all.
      const expected = id.includes("%00") ? [400, "BAD_REQUEST"] : [404, "NOT_FOUND"];
      expect([answer.status, answer.json.code]).toEqual(expected);
    }
  });

  it("with broken percent-encoding are 400", async () => {
    const answer = await t.web.request("DELETE", `${ingestion}/%zz`, { cookie: t.admin });
    expect(refusalProblems(answer, 400, "BAD_REQUEST", /percent-encoding/)).toEqual([]);
  });

  it("in capitals name the same key", async () => {
    const { json } = await post({ name: "k", audience: "capitals" });
    const path = `${ingestion}/${json.key_id.toUpperCase()}`;
    expect((await t.web.request("DELETE", path, { cookie: t.admin })).status).toBe(200);
  });
});

describe("cookies", () => {
  const claims = (): Record<string, unknown> => {
    const nowSeconds = Math.floor(Date.now() / 1000);
    return {
      iss: t.identities.provider.issuer,
      aud: t.identities.provider.clientId,
      sub: "somebody",
      email: "admin@example.com",
      iat: nowSeconds,
      exp: nowSeconds + 600,
    };
  };
  const get = (cookie?: string, headers?: Record<string, string>): Promise<WebAnswer> =>
    t.web.request("GET", ingestion, {
      ...(cookie === undefined ? {} : { cookie }),
      ...(headers === undefined ? {} : { headers }),
    });

  it("that are valid are let in, among others and in quotes", async () => {
    expect((await get(`a=b; ${t.admin}; c=d`)).status).toBe(200);
    expect((await get(t.admin.replace(/=(.*)/, '="$1"'))).status).toBe(200);
  });

  it("that are missing, expired, forged or foreign are 401 UNAUTHENTICATED", async () => {
    const { key } = t.identities;
    const other = await makeSigningKey("web-test", "ES256");
    const expired = { ...claims(), iat: 1_000_000, exp: 1_000_600 };
    const [head, body] = (await signToken(key, claims())).split(".");
    const none = Buffer.from('{"alg":"none"}').toString("base64url");
    const tokens = {
      expired: await signToken(key, expired),
      "signed by another key": await signToken(other, claims()),
      "for another client": await signToken(key, { ...claims(), aud: "other" }),
      "for several clients": await signToken(key, {
        ...claims(),
        aud: [t.identities.provider.clientId, "other"],
      }),
      "of another issuer": await signToken(key, { ...claims(), iss: "https://id.example" }),
      "not signed": `${none}.${body}.`,
      "cut off": `${head}.${body}.`,
      "an access token": await signToken(key, claims(), { typ: "at+jwt" }),
      "no token": "not-a-token",
      empty: "",
    };
    for (const [what, token] of Object.entries(tokens)) {
      const answer = await get(`id_token=${token}`);
      expect([what, answer.status, answer.json.code]).toEqual([what, 401, "UNAUTHENTICATED"]);
      expect(answer.json.message).toMatch(/log in/);
      expect(answer.text).not.toContain(token === "" ? "\0" : token);
    }
    for (const cookie of [undefined, "", "token=x", `ID_TOKEN=${t.admin.slice(9)}`]) {
      expect((await get(cookie)).status).toBe(401);
    }
    expect((await get(`${t.admin}; id_token=x`)).status).toBe(401);
  });

  it("are the only way in: neither a bearer token nor an API key gets past", async () => {
    const token = t.admin.slice("id_token=".length);
    expect((await get(undefined, { authorization: `Bearer ${token}` })).status).toBe(401);
    const { json } = await post({ name: "k", audience: "bearer" });
    for (const [cookie, headers] of [
      [undefined, { authorization: `Bearer ${json.key}` }],
      [`id_token=${json.key}`, {}],
    ] as const) {
      const answer = await get(cookie, headers);
      expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, null]);
    }
    // The key itself is good.
    const keys = createKeyAuthenticator({
      sql: t.web.database.sql,
      table: "ingestion_api_keys",
      cacheSize: 10,
      cacheTtlMs: 1000,
      unknownCacheSize: 10,
      unknownCacheTtlMs: 1000,
      logger: createSilentLogger(),
      metrics: createMetrics(),
    });
    expect((await keys.authenticate(`Bearer ${json.key}`)).kind).toBe("ok");
    await keys.stop();
  });

  it("are asked for by every route but the document", async () => {
    for (const [method, path] of [
      ["POST", ingestion],
      ["DELETE", `${ingestion}/x`],
      ["GET", "/api/audience-grants/my-audiences"],
      ["GET", "/api/groups"],
      ["GET", "/api/audit"],
    ] as const) {
      expect((await t.web.request(method, path)).status).toBe(401);
    }
    expect((await t.web.request("GET", "/api/openapi.json")).status).toBe(200);
  });
});

describe("other origins", () => {
  it("cannot change anything: 403 FORBIDDEN, whatever they send", async () => {
    for (const origin of ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"]) {
      for (const type of ["application/json", "text/plain"]) {
        const headers = { origin, "content-type": type };
        expect(refusalProblems(await post('{"name": "k", "audience": "x"}', { headers }), 403, "FORBIDDEN")).toEqual(
          [],
        );
      }
      const path = `${ingestion}/00000000-0000-4000-8000-000000000000`;
      const answer = await t.web.request("DELETE", path, { cookie: t.admin, headers: { origin } });
      expect(refusalProblems(answer, 403, "FORBIDDEN")).toEqual([]);
      expect(answer.headers.get("access-control-allow-origin")).toBeNull();
    }
    expect(await t.web.count("select count(*) n from ingestion_api_keys where audience = 'x'")).toBe(0);
  });

  it("the own origin can, also without a content type where there is no body", async () => {
    const origin = `http://127.0.0.1:${t.web.server.address.port}`;
    const { json } = await post({ name: "k", audience: "own" }, { headers: { origin } });
    const response = await fetch(`${t.web.url}${ingestion}/${json.key_id}`, {
      method: "DELETE",
      headers: { cookie: t.admin, origin },
    });
    expect(response.status).toBe(200);
  });

  it("a DELETE says JSON or an origin that may send it", async () => {
    const send = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${t.web.url}/api/groups/none-such`, {
        method: "DELETE",
        headers: { cookie: t.admin, ...headers },
      });
    expect((await send({})).status).toBe(415);
    expect((await send({ "content-type": "application/json" })).status).toBe(404);
    expect((await send({ origin: "https://evil.example" })).status).toBe(403);
    expect((await send({ "sec-fetch-site": "cross-site" })).status).toBe(403);
  });

  it("SVC_WEB_CORS_ORIGIN is let in, and preflights are answered for it alone", async () => {
    const app = "https://app.example";
    const cors = await t.start({
      beside: t.web,
      environment: { SVC_WEB_CORS_ORIGIN: app },
    });
    const preflight = (origin: string) =>
      cors.request("OPTIONS", ingestion, {
        headers: { origin, "access-control-request-method": "POST" },
      });
    const allowed = await preflight(app);
    expect([allowed.status, allowed.headers.get("access-control-allow-origin")]).toEqual([204, app]);
    expect(allowed.headers.get("access-control-allow-credentials")).toBe("true");
    expect((await preflight("https://evil.example")).headers.get("access-control-allow-origin")).toBeNull();
    const answer = await cors.request("POST", ingestion, {
      cookie: t.admin,
      headers: { origin: app },
      body: { name: "k", audience: "cors" },
    });
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([201, app]);
    await cors.stop();
  });
});

describe("paths, methods and framing", () => {
  it.each(["/api", "/api/nothing", "/api/ingestion-api-keys/", "/api//groups", "/api/groups/a/b"])(
    "%s is 404",
    async (path) => {
      expect(refusalProblems(await t.web.request("GET", path, { cookie: t.admin }), 404, "NOT_FOUND")).toEqual([]);
    },
  );

  it("a method that a path does not take is 405 with Allow", async () => {
    for (const [method, path, allow] of [
      ["PUT", ingestion, "POST, GET, HEAD"],
      ["DELETE", ingestion, "POST, GET, HEAD"],
      ["OPTIONS", ingestion, "POST, GET, HEAD"],
      ["PUT", "/api/audience-grants", "POST, GET, HEAD, DELETE"],
      ["POST", "/api/audit", "GET, HEAD"],
      ["POST", "/health", "GET, HEAD"],
    ] as const) {
      const answer = await t.web.request(method, path, { cookie: t.admin });
      expect([method, path, answer.status]).toEqual([method, path, 405]);
      expect(answer.headers.get("allow")).toBe(allow);
    }
  });

  it("HEAD answers as GET does, without the body", async () => {
    const get = await t.web.request("GET", "/api/groups", { cookie: t.admin });
    const head = await t.web.request("HEAD", "/api/groups", { cookie: t.admin });
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(String(Buffer.byteLength(get.text)));
  });

  it("a request with two lengths is 400, and the connection is closed", async () => {
    const { responses, closed } = await rawRequest(t.web.server.address.port, [
      `POST ${ingestion} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 50\r\n\r\n{}GET /api/audit HTTP/1.1\r\nHost: x\r\n\r\n`,
    ]);
    expect([responses.map(({ status }) => status), closed]).toEqual([[400], true]);
    expect(JSON.parse(responses[0]?.body.toString() ?? "")).toMatchObject({ code: "BAD_REQUEST" });
  });

  it("a client that leaves in the middle of its body leaves nothing behind", async () => {
    for (let i = 0; i < 20; i++) {
      const connection = await RawConnection.open(t.web.server.address.port);
      connection.send(
        `POST ${ingestion} HTTP/1.1\r\nHost: x\r\nCookie: ${t.admin}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name"`,
      );
      if (i % 2 === 0) {
        connection.cut();
      } else {
        connection.close();
      }
    }
    expect((await t.web.request("GET", "/api/groups", { cookie: t.admin })).status).toBe(200);
  });
});
