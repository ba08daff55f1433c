/** Finds the operation of a request from the table of admin routes. */
import { ServiceError } from "../../runtime/errors.js";
import { type OperationId, operations } from "../../wire/web/admin-api.js";
import type { Operation } from "../../wire/web/operation.js";

/** What a method and a path come to. */
export type RouteMatch =
  | {
      readonly kind: "operation";
      readonly id: OperationId;
      /** Decoded segments by name. */
      readonly path: Readonly<Record<string, string>>;
    }
  /** The path exists; `allow` lists its methods. */
  | { readonly kind: "other-method"; readonly allow: string }
  | { readonly kind: "none" };

interface CompiledRoute {
  readonly id: OperationId;
  readonly method: Operation["method"];
  readonly segments: readonly string[];
}

const routes: readonly CompiledRoute[] = (Object.keys(operations) as OperationId[]).map((id) => ({
  id,
  method: operations[id].method,
  segments: operations[id].path.split("/"),
}));

/**
 * Literal segments are compared as they were sent, so that a path has one spelling.
 * @param path below the base path; @param method `GET` serves HEAD, too.
 * @throws ServiceError BAD_REQUEST for a segment with broken percent-encoding.
 */
export function matchRoute(method: string, path: string): RouteMatch {
  const segments = path.split("/");
  const methods: string[] = [];
  for (const route of routes) {
    const values = matchSegments(route.segments, segments);
    if (values === null) {
      continue;
    }
    if (route.method === method || (route.method === "GET" && method === "HEAD")) {
      return { kind: "operation", id: route.id, path: values };
    }
    methods.push(route.method, ...(route.method === "GET" ? ["HEAD"] : []));
  }
  return methods.length === 0 ? { kind: "none" } : { kind: "other-method", allow: methods.join(", ") };
}

function matchSegments(pattern: readonly string[], segments: readonly string[]): Record<string, string> | null {
  if (pattern.length !== segments.length) {
    return null;
  }
  const values: Record<string, string> = {};
  for (const [i, expected] of pattern.entries()) {
    const segment = segments[i] ?? "";
    if (!expected.startsWith("{")) {
      if (segment !== expected) {
        return null;
      }
    } else if (segment === "") {
      return null;
    } else {
      values[expected.slice(1, -1)] = decodeSegment(segment);
    }
  }
  return values;
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (cause) {
    throw new ServiceError("BAD_REQUEST", "the path has broken percent-encoding", { cause });
  }
}
