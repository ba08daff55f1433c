/** Options of the command line and of applications. They are read in client/; the servers know them for their documents. */
import { text, uri } from "./kinds.js";
import { type OptionTable, row } from "./table.js";

export const clientOptions = {
  SVC_ANALYTICS_URI: row({
    kind: uri("grpc", "grpc+tls"),
    default: "grpc://localhost:50051",
    roles: ["cli", "web"],
    help: "Analytics server to query. Unset, a monolith with the role analytics asks itself.",
  }),
  SVC_WEB_URL: row({
    kind: uri("http", "https"),
    default: "http://localhost:3000",
    roles: ["cli"],
    help: "Web server to administer, with its base path.",
  }),
  SVC_ANALYTICS_API_KEY: row({
    kind: text({ takes: "an API key", placeholder: "key", pattern: /^\S+$/ }),
    default: null,
    roles: ["cli"],
    secret: true,
    help: "Key for the analytics server.",
  }),
  SVC_PROFILE: row({
    kind: text({
      takes: "a name of letters, digits, _ . or -",
      placeholder: "name",
      pattern: /^[A-Za-z0-9_.-]+$/,
    }),
    default: null,
    roles: ["cli"],
    help: "Profile that ~/.telemetry/config.json defines.",
  }),
  SVC_OIDC_ISSUER: row({
    kind: uri("http", "https"),
    default: null,
    roles: ["cli"],
    help: "OpenID Connect issuer to log in at.",
  }),
  SVC_OIDC_CLIENT_ID: row({
    kind: text({ placeholder: "client id" }),
    default: null,
    roles: ["cli"],
    help: "Client id of the command line at that issuer.",
  }),
  SVC_OIDC_CLIENT_SECRET: row({
    kind: text({ placeholder: "secret" }),
    default: null,
    roles: ["web", "cli"],
    secret: true,
    help: "Client secret, for a provider that requires one beside PKCE: the first issuer of SVC_OIDC_CONFIG, or the one that the command line logs in at.",
  }),
  SVC_OIDC_AUDIENCE: row({
    kind: text({ placeholder: "audience" }),
    default: null,
    roles: ["cli"],
    help: "API audience, for providers that require one.",
  }),
  SVC_OIDC_TOKEN_ENDPOINT: row({
    kind: uri("http", "https"),
    default: null,
    roles: ["cli"],
    help: "Token endpoint for the client credentials of an application that sends.",
  }),
  SVC_OIDC_SCOPE: row({
    kind: text({ placeholder: "scopes" }),
    default: "openid email profile offline_access",
    roles: ["web", "cli"],
    help: "Scopes to ask for.",
  }),
} as const satisfies OptionTable;
