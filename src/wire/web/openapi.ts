/**
 * The OpenAPI 3.1 document of every route of the web server. The table that validates requests describes
 * the admin routes; login and probes are described by hand (web-routes.ts).
 */
import { type ErrorCode, errorCatalogue } from "../../runtime/errors.js";
import { components, type OperationId, operations } from "./admin-api.js";
import type { Operation } from "./operation.js";
import { bodySchema, type Fields, type JsonSchema } from "./fields.js";
import { type DescribedRoute, describedRoutes } from "./web-routes.js";

/** @param o.basePath `SVC_BASE_PATH` without a slash at its end. */
export function openApiDocument(o: { readonly basePath: string; readonly version: string }): JsonSchema {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const id of Object.keys(operations) as OperationId[]) {
    const operation: Operation = operations[id];
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method.toLowerCase()]: describe(id, operation),
    };
  }
  for (const route of describedRoutes) {
    paths[route.path] = {
      ...paths[route.path],
      [route.method.toLowerCase()]: describeRoute(route),
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "telemetry-service administration",
      version: o.version,
      description:
        "Keys, grants, groups, the audit and what the web application keeps (/api), browser login (/auth), and probes. Requests that change something say Content-Type: application/json or come from an allowed Origin. Every error is a JSON object of code and message.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: o.basePath === "" ? "/" : o.basePath }],
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        session: { type: "apiKey", in: "cookie", name: "id_token" },
        refresh: { type: "apiKey", in: "cookie", name: "refresh_token" },
      },
    },
  };
}

function describe(id: OperationId, operation: Operation): JsonSchema {
  const parameters = [...parametersOf("path", operation.pathParameters), ...parametersOf("query", operation.query)];
  return {
    operationId: id,
    summary: operation.summary,
    security: operation.access === "public" ? [] : [{ session: [] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...requestBodyOf(operation),
    responses: responsesOf(operation),
  };
}

function requestBodyOf({ body, upload }: Operation): JsonSchema {
  if (upload !== null) {
    const { type, description } = upload;
    const schema = { type: "string", format: "binary", description };
    return { requestBody: { required: true, content: { [type]: { schema } } } };
  }
  return body === null
    ? {}
    : { requestBody: { required: true, content: { "application/json": { schema: bodySchema(body) } } } };
}

function parametersOf(place: "path" | "query", fields: Fields): JsonSchema[] {
  return Object.entries(fields).map(([name, field]) => ({
    name,
    in: place,
    required: field.required,
    schema: field.schema,
  }));
}

function responsesOf(operation: Operation): JsonSchema {
  const responses: Record<string, unknown> = {};
  for (const [status, { description, schema, types = ["application/json"] }] of Object.entries(operation.responses)) {
    responses[status] =
      schema === null
        ? { description }
        : { description, content: Object.fromEntries(types.map((type) => [type, { schema }])) };
  }
  return { ...responses, ...errorResponses(errorsOf(operation)) };
}

function describeRoute(route: DescribedRoute): JsonSchema {
  const { status, description, content } = route.response;
  const parameters = route.query.map((parameter) => ({
    name: parameter.name,
    in: "query",
    required: false,
    description: parameter.description,
    schema: { type: "string" },
  }));
  return {
    operationId: route.operationId,
    summary: route.summary,
    security: route.cookie === null ? [] : [{ [route.cookie]: [] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    responses: {
      [status]: {
        description,
        ...(content === null ? {} : { content: { [content.type]: { schema: content.schema } } }),
      },
      ...errorResponses(route.errors),
    },
  };
}

function errorResponses(errors: readonly ErrorCode[]): Record<string, unknown> {
  const responses: Record<string, unknown> = {};
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of errors) {
    const { http } = errorCatalogue[code];
    byStatus.set(http, [...(byStatus.get(http) ?? []), code]);
  }
  for (const [status, codes] of byStatus) {
    responses[status] = {
      description: codes.join(", "),
      content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
    };
  }
  return responses;
}

/** Every error that an operation can answer. */
function errorsOf(operation: Operation): readonly ErrorCode[] {
  if (operation.access === "public") {
    return ["BAD_REQUEST"];
  }
  const changes = operation.method !== "GET";
  return [
    "BAD_REQUEST",
    "UNAUTHENTICATED",
    ...(operation.access === "admin" || changes ? (["FORBIDDEN"] as const) : []),
    ...(operation.body === null && operation.upload === null
      ? []
      : (["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"] as const)),
    ...operation.errors.filter((code) => code !== "FORBIDDEN"),
    "INTERNAL",
    "UNAVAILABLE",
    "NOT_CONFIGURED",
    "AUTH_DISABLED",
    "OVERLOADED",
  ];
}
