/** The OpenAPI document against the running server, in both directions, and against OpenAPI itself. */
import { Validator } from "@seriousme/openapi-schema-validator";
import { beforeAll, expect, it } from "vitest";

import { loginMethods } from "../../../src/routes/web/login-routes.js";
import { operations } from "../../../src/wire/web/admin-api.js";
import type { Operation } from "../../../src/wire/web/operation.js";
import { schemaProblem } from "../../helpers/web/json-schema.js";
import { useWeb } from "../../helpers/web/web-fixture.js";

type Schema = Readonly<Record<string, unknown>>;

interface Media {
  readonly schema: Schema;
}

interface DocumentedOperation {
  readonly operationId: string;
  readonly security: readonly Readonly<Record<string, unknown>>[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Media>> }>>;
}

interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

const t = useWeb({ SVC_BASE_PATH: "/base" });
let text: string;
let document: Document;

beforeAll(async () => {
  ({ text } = await t.web.request("GET", "/api/openapi.json"));
  document = JSON.parse(text) as Document;
});

const send = (method: string, path: string, cookie = t.admin, type = "application/json"): Promise<Response> =>
  fetch(`${t.web.url}${path.replaceAll(/\{\w+\}/g, "x")}`, {
    method,
    redirect: "manual",
    headers: { cookie, "content-type": type, origin: new URL(t.web.url).origin },
  });

it("is an OpenAPI 3.1 document by the standard's own schema", async () => {
  const { valid, errors } = await new Validator().validate(structuredClone({ ...document }));
  expect([valid, errors]).toEqual([true, undefined]);
  // And the validator is one.
  const broken = { ...document, paths: { "/x": { get: { responses: 5 } } } };
  expect((await new Validator().validate(broken)).valid).toBe(false);
});

it("names no route that is not there: each takes exactly the methods that it names", async () => {
  for (const [route, methods] of Object.entries(document.paths)) {
    const answer = await send("PROPFIND", route);
    expect([route, answer.status]).toEqual([route, 405]);
    const allowed = (answer.headers.get("allow") ?? "").split(", ").filter((m) => m !== "HEAD");
    const documented = Object.keys(methods).map((method) => method.toUpperCase());
    expect([route, allowed.toSorted()]).toEqual([route, documented.toSorted()]);
    await answer.text();
  }
});

it("names no version in its paths", () => {
  expect(Object.keys(document.paths).filter((path) => /\/v\d/.test(path))).toEqual([]);
});

it("leaves out no route that is there", () => {
  const existing = [
    ...Object.values<Operation>(operations).map(({ method, path }) => `${method} ${path}`),
    ...Object.entries(loginMethods).map(([path, method]) => `${method} ${path}`),
    "GET /health",
    "GET /ready",
    "GET /metrics",
  ];
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(documented.toSorted()).toEqual(existing.toSorted());
});

it("is below the base path that it names", async () => {
  expect(document).toMatchObject({ openapi: "3.1.0", servers: [{ url: "/base" }] });
  const { status } = await fetch(`${new URL(t.web.url).origin}/api/openapi.json`);
  expect(status).toBe(404);
});

it("gives every operation a name of its own, and every place in a path its parameter", () => {
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.values(methods).map((operation) => ({ path, operation })),
  );
  const names = all.map(({ operation }) => operation.operationId);
  expect(new Set(names).size).toBe(names.length);
  for (const { path, operation } of all) {
    const places = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const parameters = (operation.parameters ?? []).filter((p) => p.in === "path");
    expect([path, parameters.map((p) => p.name)]).toEqual([path, places]);
  }
});

it("says which routes take a cookie: those are 401 without it, and no others", async () => {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, { security, requestBody }] of Object.entries(methods)) {
      // A body that is refused, and parameters that are missing, come after the caller.
      const [type] = Object.keys(requestBody?.content ?? {});
      const { status } = await send(method.toUpperCase(), path, "", type);
      expect([method, path, status === 401]).toEqual([method, path, security.length > 0]);
    }
  }
});

it.each([
  ["GET", "/auth/login", "", 302],
  ["GET", "/auth/login?return_to=//evil.example", "", 400],
  ["GET", "/auth/callback", "", 400],
  ["POST", "/auth/refresh", "", 401],
  ["POST", "/auth/logout", "", 204],
  ["GET", "/auth/me", "admin", 200],
  ["GET", "/auth/me", "", 401],
  ["GET", "/health", "", 200],
  ["GET", "/ready", "", 200],
  ["GET", "/metrics", "", 200],
])("documents what %s %s answers (%s %i)", async (method, target, who, status) => {
  const answer = await send(method, target, who === "" ? "" : t.admin);
  expect(answer.status).toBe(status);
  const documented = document.paths[target.split("?")[0] ?? ""]?.[method.toLowerCase()]?.responses[status];
  expect(documented).toBeDefined();
  const body = await answer.text();
  const type = answer.headers.get("content-type")?.split(";")[0];
  expect(Object.keys(documented?.content ?? {})).toEqual(type === undefined ? [] : [type]);
  const schema = documented?.content?.[type ?? ""]?.schema;
  const value: unknown = type === "application/json" ? JSON.parse(body) : body;
  const { schemas } = document.components;
  expect(schema === undefined ? null : schemaProblem(schema, value, schemas)).toBeNull();
});

it("documents what is validated: its required fields and its limits are refused when broken", async () => {
  for (const [route, methods] of Object.entries(document.paths)) {
    const schema = methods["post"]?.requestBody?.content["application/json"]?.schema as
      | { required: string[]; properties: Record<string, { maxLength?: number }> }
      | undefined;
    if (schema === undefined) {
      continue;
    }
    const target = route.replaceAll(/\{\w+\}/g, "admins");
    const post = (body: unknown) => t.web.request("POST", target, { cookie: t.admin, body });
    for (const name of schema.required) {
      const answer = await post({});
      expect([route, name, answer.status]).toEqual([route, name, 400]);
    }
    expect((await post({ unknown: 1 })).json.message).toContain(Object.keys(schema.properties).join(", "));
    for (const [name, { maxLength }] of Object.entries(schema.properties)) {
      if (maxLength === undefined) {
        continue;
      }
      const answer = await post({ [name]: "x".repeat(maxLength + 1) });
      expect([route, name, answer.status]).toEqual([route, name, 400]);
    }
  }
});

it("references only schemas that it holds, and holds none in vain", () => {
  const names = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name);
  expect(new Set(names)).toEqual(new Set(Object.keys(document.components.schemas)));
});
