/** The routes of the web server that commands call. */

/** One route; `{name}` of its path is one segment. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
}

/** Named as the server's OpenAPI document names its operations. */
export const routes = {
  mintIngestionKey: { method: "POST", path: "/api/ingestion-api-keys" },
  listIngestionKeys: { method: "GET", path: "/api/ingestion-api-keys" },
  revokeIngestionKey: { method: "DELETE", path: "/api/ingestion-api-keys/{key_id}" },
  mintAnalyticsKey: { method: "POST", path: "/api/analytics-api-keys" },
  listAnalyticsKeys: { method: "GET", path: "/api/analytics-api-keys" },
  revokeAnalyticsKey: { method: "DELETE", path: "/api/analytics-api-keys/{key_id}" },
  createGrant: { method: "POST", path: "/api/audience-grants" },
  listGrants: { method: "GET", path: "/api/audience-grants" },
  deleteGrant: { method: "DELETE", path: "/api/audience-grants" },
  myAudiences: { method: "GET", path: "/api/audience-grants/my-audiences" },
  createGroup: { method: "POST", path: "/api/groups" },
  listGroups: { method: "GET", path: "/api/groups" },
  deleteGroup: { method: "DELETE", path: "/api/groups/{name}" },
  addGroupMember: { method: "POST", path: "/api/groups/{name}/members" },
  listGroupMembers: { method: "GET", path: "/api/groups/{name}/members" },
  removeGroupMember: { method: "DELETE", path: "/api/groups/{name}/members" },
  listAudit: { method: "GET", path: "/api/audit" },
  listUsage: { method: "GET", path: "/api/usage" },
  listDenials: { method: "GET", path: "/api/query-denials" },
  addDenial: { method: "POST", path: "/api/query-denials" },
  removeDenial: { method: "DELETE", path: "/api/query-denials" },
  testDenial: { method: "POST", path: "/api/query-denials/test" },
  listScreens: { method: "GET", path: "/api/screens" },
  getScreen: { method: "GET", path: "/api/screens/{name}" },
  getScreenVersion: { method: "GET", path: "/api/screens/{name}/versions/{version}" },
  putScreen: { method: "PUT", path: "/api/screens/{name}" },
  listRetention: { method: "GET", path: "/api/retention" },
  putRetention: { method: "PUT", path: "/api/retention" },
  deleteRetention: { method: "DELETE", path: "/api/retention" },
  createErasure: { method: "POST", path: "/api/erasures" },
  listErasures: { method: "GET", path: "/api/erasures" },
  getErasure: { method: "GET", path: "/api/erasures/{id}" },
  createLakeCheck: { method: "POST", path: "/api/lake-checks" },
  listLakeChecks: { method: "GET", path: "/api/lake-checks" },
  getLakeCheck: { method: "GET", path: "/api/lake-checks/{id}" },
} as const satisfies Readonly<Record<string, Route>>;
