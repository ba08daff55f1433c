/** The option table: every variable and flag of every process, once. */

import { apiKeysTakes, checkApiKeys } from "./api-keys.js";
import { clientOptions } from "./client-options.js";
import { checkOidcConfig, oidcConfigTakes } from "./oidc.js";
import {
  allOrSomeOf,
  bool,
  bytes,
  int,
  json,
  listen,
  listenOrNot,
  oneOf,
  origins,
  prefixes,
  seconds,
  text,
  postgresUri,
  uri,
} from "./kinds.js";
import { emailPattern } from "../text/identities.js";
import { type OptionTable, monolithRoles, row } from "./table.js";

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;
const day = 86_400;

const audiencePattern = /^[A-Za-z0-9_-]{1,255}$/;
const audience = text({
  takes: "an audience: 1 to 255 letters, digits, _ or -",
  placeholder: "audience",
  pattern: audiencePattern,
});
const audienceOrNone = text({
  takes: "an audience (1 to 255 letters, digits, _ or -), or the empty string",
  placeholder: "audience",
  pattern: /^[A-Za-z0-9_-]{0,255}$/,
});
const path = text({ takes: "a path", placeholder: "path" });
const address = (port: number): { readonly host: string; readonly port: number } => ({ host: "127.0.0.1", port });

const lake = ["ingestion", "analytics", "maintenance"] as const;
const servers = ["ingestion", "analytics", "web", "maintenance", "object-cache"] as const;
const keyed = ["ingestion", "analytics", "web"] as const;
const listening = [...keyed, "maintenance", "object-cache"] as const;

/** Every option of the service. */
export const options = {
  // General
  SVC_DATA_DIR: row({
    kind: path,
    default: "./data",
    roles: servers,
    help: "Directory of the embedded database and of the default object store.",
  }),
  SVC_LOG_LEVEL: row({
    kind: oneOf("trace", "debug", "info", "warn", "error", "fatal", "silent"),
    default: "info",
    roles: servers,
    help: "Least severe log lines to write.",
  }),
  SVC_SHUTDOWN_GRACE_PERIOD_SECONDS: row({
    kind: seconds(0, 3600),
    default: 25,
    roles: servers,
    onePerProcess: true,
    help: "Longest drain after SIGTERM, SIGINT or SIGHUP; a second signal exits at once.",
  }),
  SVC_HTTP_DRIVER: row({
    kind: oneOf("auto", "uws", "node"),
    default: "auto",
    roles: listening,
    help: "HTTP driver: `uws` (uWebSockets.js), `node` (`node:http`), or `auto`: `uws`, unless its binary misreads requests and the address is not loopback.",
  }),
  SVC_HTTP_MAX_CONNECTIONS: row({
    kind: int(1, 1_000_000),
    default: 10_000,
    roles: listening,
    help: "Most open connections of one listener of HTTP, OTLP/gRPC or Flight SQL; each may hold 64 KiB for the head of a request, of OTLP/gRPC 16 MiB of calls whose callers are looked up.",
  }),
  SVC_ROLES: row({
    kind: allOrSomeOf(...monolithRoles),
    default: "all",
    roles: ["monolith"],
    help: "Roles that the monolith plays. A named role that cannot run is an error; `all` leaves it out and logs why.",
  }),
  SVC_DEVELOPMENT: row({
    kind: bool(),
    default: false,
    roles: ["monolith"],
    help: "Development mode: mints first keys into the data directory, lets people log in without a password unless SVC_OIDC_CONFIG is set, and reports telemetry to itself.",
  }),
  SVC_DEVELOPMENT_OIDC_LISTEN: row({
    kind: listen(),
    default: null,
    roles: ["monolith"],
    help: "Where the identity provider of development mode listens, on loopback; unset: 127.0.0.1:3001. Refused outside of development mode.",
  }),
  SVC_DISABLE_AUTH: row({
    kind: bool(),
    default: false,
    roles: keyed,
    help: "Turns authentication off; for development only.",
  }),

  // Stores
  SVC_SQL_CONNECTION_STRING: row({
    kind: postgresUri(),
    default: null,
    roles: [...lake, "web"],
    secret: true,
    help: "Telemetry database; unset, ingestion and the monolith run a Postgres of their own in the data directory.",
  }),
  "print-sql-connection": row({
    kind: bool(),
    default: false,
    roles: ["monolith"],
    help: "Starts nothing: prints the connection string of the database that a running monolith has in the data directory, password included.",
  }),
  SVC_SQL_MAX_CONNECTIONS: row({
    kind: int(1, 1000),
    default: 4,
    roles: lake,
    help: "Database connections of ingestion, at least 2, of which one or two commit, and of analytics. A merge takes two more; maintenance has one, the web server at most two.",
  }),
  SVC_OBJECT_STORE_URI: row({
    kind: uri("file", "s3"),
    default: null,
    roles: [...lake, "web", "object-cache"],
    help: "Object store: file:///path, or s3://bucket/prefix with the `AWS_*` variables of its SDK; unset: below the data directory. The web server keeps maps in it.",
  }),
  SVC_S3_ENDPOINT: row({
    kind: uri("http", "https"),
    default: null,
    roles: [...lake, "web", "object-cache"],
    help: "Address of an S3 store that is not Amazon's, such as https://minio.example.com:9000.",
  }),
  SVC_LAKE_CACHE_DIR: row({
    kind: path,
    default: null,
    roles: ["analytics"],
    help: "Directory of one analytics server's own for what it has read of an S3 store; unset: `lake-cache` below the data directory.",
  }),
  SVC_LAKE_CACHE_BYTES: row({
    kind: bytes(64 * MiB, 16_384 * GiB),
    default: null,
    roles: ["analytics"],
    help: "Most that this cache holds, and so the most that the queries which run at a time may read; unset: 10 GiB, or half of what its disk has free.",
  }),
  SVC_OBJECT_CACHE_URI: row({
    kind: uri("http", "https"),
    default: null,
    roles: ["analytics"],
    help: "Object cache in front of an S3 store, such as http://object-cache:8080; while it is slow or broken the store is read. With SVC_OBJECT_CACHE_API_KEY.",
  }),
  SVC_OBJECT_CACHE_API_KEY: row({
    kind: text({ takes: "an API key", placeholder: "key", pattern: /^[\x21-\x7e]+$/ }),
    default: null,
    roles: ["analytics"],
    secret: true,
    help: "Key for SVC_OBJECT_CACHE_URI, one of the cache's SVC_API_KEYS.",
  }),

  // Object cache
  SVC_OBJECT_CACHE_LISTEN: row({
    kind: listen(),
    default: address(8080),
    roles: ["object-cache"],
    help: "Where the object cache listens (HTTP).",
  }),
  SVC_API_KEYS: row({
    kind: json(apiKeysTakes, checkApiKeys),
    default: null,
    roles: ["object-cache"],
    secret: true,
    help: "Keys of the object cache's callers. No other server reads it.",
  }),
  SVC_OBJECT_CACHE_PREFIX: row({
    kind: prefixes(),
    default: null,
    roles: ["object-cache"],
    help: "Directories of the object store, separated by commas, whose objects the cache hands out, such as `log_entries,spans/audience=team-a`; unset: all.",
  }),
  SVC_OBJECT_CACHE_MEMORY_BYTES: row({
    kind: bytes(0, 1024 * GiB),
    default: 256 * MiB,
    roles: ["object-cache"],
    help: "Most that the object cache keeps in memory; fetches under way take up to 96 MiB more, and each answer under way 1 MiB.",
  }),
  SVC_OBJECT_CACHE_DISK_BYTES: row({
    kind: bytes(0, 16_384 * GiB),
    default: null,
    roles: ["object-cache"],
    help: "Most that the object cache keeps on its disk; 0: nothing. Unset: 10 GiB, or half of what the disk has free.",
  }),
  SVC_OBJECT_CACHE_DIR: row({
    kind: path,
    default: null,
    roles: ["object-cache"],
    help: "Directory of one object cache's own; unset: `object-cache` below the data directory.",
  }),
  SVC_OBJECT_CACHE_TTL_SECONDS: row({
    kind: seconds(1, 365 * day),
    default: day,
    roles: ["object-cache"],
    help: "How long the object cache keeps an object without making sure that the store still has it; what was removed there is gone here by then.",
  }),

  // Ingestion
  SVC_INGESTION_LISTEN: row({
    kind: listen(),
    default: address(9000),
    roles: ["ingestion"],
    help: "Where the ingestion server listens (HTTP).",
  }),
  SVC_OTLP_HTTP_LISTEN: row({
    kind: listenOrNot(),
    default: address(4318),
    roles: ["ingestion"],
    emptyAllowed: true,
    help: "Where the ingestion server listens, too: the usual port of OTLP/HTTP; the empty string turns it off.",
  }),
  SVC_INGESTION_CORS_ORIGINS: row({
    kind: origins(),
    default: null,
    roles: ["ingestion"],
    help: "Origins, separated by commas, whose pages may send telemetry from browsers (CORS); unset: none.",
  }),
  SVC_OTLP_GRPC_LISTEN: row({
    kind: listenOrNot(),
    default: address(4317),
    roles: ["ingestion"],
    emptyAllowed: true,
    help: "Where the ingestion server takes OTLP/gRPC; the empty string turns that off.",
  }),
  SVC_OTLP_GRPC_TLS_CERT_FILE: row({
    kind: path,
    default: null,
    roles: ["ingestion"],
    help: "Certificate chain (PEM) for OTLP/gRPC with TLS; with the key file. Read again every minute.",
  }),
  SVC_OTLP_GRPC_TLS_KEY_FILE: row({
    kind: path,
    default: null,
    roles: ["ingestion"],
    help: "Private key (PEM) for OTLP/gRPC with TLS; with the certificate file. Read again every minute.",
  }),
  SVC_OTLP_MAX_BODY_BYTES: row({
    kind: bytes(1, 1 * GiB),
    default: 20 * MiB,
    roles: ["ingestion"],
    help: "Largest OTLP body or message as sent.",
  }),
  SVC_OTLP_MAX_INFLATED_BYTES: row({
    kind: bytes(1, 1 * GiB),
    default: 64 * MiB,
    roles: ["ingestion"],
    help: "Largest OTLP body or message after decompression. Its rows may have four times as many bytes, 256 for each among them.",
  }),
  SVC_OTLP_BODY_TIMEOUT_SECONDS: row({
    kind: seconds(0.1, 3600),
    default: 30,
    roles: ["ingestion"],
    help: "Longest time a body or message may take to arrive.",
  }),
  SVC_INGESTION_ACCEPTORS: row({
    kind: int(1, 64),
    default: 1,
    roles: ["ingestion"],
    help: "Threads that accept connections.",
  }),
  SVC_INGESTION_WORKERS: row({
    kind: int(0, 256),
    default: 0,
    roles: ["ingestion"],
    help: "Most threads that encode segments; one more starts when all are busy. 0: one per core.",
  }),
  SVC_INGESTION_ARENA_BYTES: row({
    kind: bytes(1 * MiB, 64 * GiB),
    default: 128 * MiB,
    roles: ["ingestion"],
    help: "Shared memory for bodies in flight; an audience that fills four fifths of it gets 503, everybody when it is full.",
  }),
  SVC_INGESTION_BATCH_BYTES: row({
    kind: bytes(4 * KiB, 1 * GiB),
    default: 8 * MiB,
    roles: ["ingestion"],
    help: "A batch closes at this size of its bodies, inflated.",
  }),
  SVC_LAKE_COMPRESSION: row({
    kind: oneOf("lz4", "none"),
    default: "none",
    roles: ["ingestion"],
    help: "Compression of freshly ingested Parquet objects: `lz4` saves disk, `none` saves CPU.",
  }),
  SVC_UNSTAMPED_AUDIENCE: row({
    kind: audienceOrNone,
    default: "public",
    roles: ["analytics", "web", "maintenance"],
    emptyAllowed: true,
    help: "Audience that unstamped rows are read as; the empty string hides them from everybody.",
  }),
  SVC_REFUSE_UNSTAMPED: row({
    kind: bool(),
    default: false,
    roles: ["ingestion"],
    help: "Refuses telemetry without an audience, such as that sent with OIDC tokens; only ingestion keys may write.",
  }),
  SVC_DEFAULT_AUDIENCE: row({
    kind: audience,
    default: "public",
    roles: keyed,
    help: "Write audience of ingestion keys minted without one.",
  }),

  // Analytics
  SVC_ANALYTICS_LISTEN: row({
    kind: listen(),
    default: address(50_051),
    roles: ["analytics"],
    help: "Where the analytics server listens (gRPC, Flight SQL).",
  }),
  SVC_ANALYTICS_HEALTH_LISTEN: row({
    kind: listen(),
    default: address(50_052),
    roles: ["analytics"],
    help: "Where the analytics server serves /health, /ready and /metrics (HTTP).",
  }),
  SVC_ANALYTICS_TLS_CERT_FILE: row({
    kind: path,
    default: null,
    roles: ["analytics"],
    help: "Certificate chain (PEM) for grpc+tls; with the key file. Read again every minute.",
  }),
  SVC_ANALYTICS_TLS_KEY_FILE: row({
    kind: path,
    default: null,
    roles: ["analytics"],
    help: "Private key (PEM) for grpc+tls; with the certificate file. Read again every minute.",
  }),
  SVC_ANALYTICS_TICKET_SECRET: row({
    kind: text({ takes: "at least 16 characters", placeholder: "secret", pattern: /^.{16,}$/s }),
    default: null,
    roles: ["analytics"],
    secret: true,
    help: "Signs tickets and prepared statements. Analytics servers behind one balancer need the same one. Unset: a new one at every start.",
  }),
  SVC_QUERY_TIMEOUT_SECONDS: row({
    kind: seconds(0.1, day),
    default: 300,
    roles: ["analytics", "web"],
    help: "Longest time a query may take; the web server gives up 10 seconds later.",
  }),
  SVC_QUERY_MEMORY_BYTES: row({
    kind: bytes(64 * MiB, 1024 * GiB),
    default: null,
    roles: ["analytics"],
    help: "Memory of one query; its process takes 320 MiB more. A query has a thread for each 64 MiB of it, and no more than there are cores. Unset: all queries together stay below half of the machine's memory, from 2.25 GiB of it on.",
  }),
  SVC_QUERY_TEMP_BYTES: row({
    kind: bytes(0, 16_384 * GiB),
    default: 4 * GiB,
    roles: ["analytics", "maintenance"],
    help: "Space that one query or one merge may spill to below `TMPDIR` (`/tmp`), which should be on a disk.",
  }),
  SVC_QUERY_SPARE_ENGINES: row({
    kind: int(0, 256),
    default: 1,
    roles: ["analytics"],
    help: "Idle query processes kept ready; each takes about 90 MB.",
  }),
  SVC_MERGE_MEMORY_BYTES: row({
    kind: bytes(256 * MiB, 1024 * GiB),
    default: 512 * MiB,
    roles: ["analytics", "maintenance"],
    help: "Memory of the engine that merges partitions; each KiB beyond 256 MiB adds a row to a step.",
  }),
  SVC_MAINTENANCE_HEALTH_LISTEN: row({
    kind: listen(),
    default: address(50_053),
    roles: ["maintenance"],
    help: "Where a process that plays the role maintenance alone serves /health, /ready and /metrics (HTTP).",
  }),
  SVC_MAINTENANCE_INTERVAL_SECONDS: row({
    kind: seconds(0.1, day),
    default: 5,
    roles: ["maintenance"],
    help: "Time between two searches for objects to merge, and until another process takes over what one that died was at.",
  }),
  SVC_MAINTENANCE_CPU_PERCENT: row({
    kind: int(1, 100),
    default: 25,
    roles: ["maintenance"],
    help: "Share of the machine's CPUs that the engine of maintenance uses over a minute; 100: no pauses.",
  }),
  SVC_RETENTION_DAYS: row({
    kind: int(1, 36_500),
    default: null,
    roles: ["maintenance"],
    help: "Days that rows are kept after they were received, where no override says otherwise. Unset: for good.",
  }),
  SVC_QUERY_CLUSTER_URI: row({
    kind: text({ takes: "sc://host:port[/;use_ssl=true;token=...]", placeholder: "uri", pattern: /^sc:\/\/\S+$/ }),
    default: null,
    roles: ["analytics"],
    secret: true,
    help: "A cluster that speaks Spark Connect, for queries that are too large for this machine. Unset: all run here.",
  }),
  SVC_QUERY_CLUSTER_MIN_BYTES: row({
    kind: bytes(0, 16_384 * GiB),
    default: 20 * GiB,
    roles: ["analytics"],
    help: "Bytes of objects that a query reads from which on it goes to the cluster.",
  }),
  SVC_QUERY_MAX_CONCURRENT: row({
    kind: int(1, 10_000),
    default: 16,
    roles: ["analytics"],
    help: "Queries that run at once; others wait. Unless SVC_QUERY_MEMORY_BYTES is set, fewer run on a machine with little memory.",
  }),
  SVC_QUERY_MAX_RESULT_ROWS: row({
    kind: int(0, 1_000_000_000_000),
    default: 0,
    roles: ["analytics"],
    help: "Most rows that a query may return; 0: no limit.",
  }),
  SVC_QUERY_MAX_RESULT_BYTES: row({
    kind: bytes(0, 16_384 * GiB),
    default: 0,
    roles: ["analytics"],
    help: "Most bytes that a query may return; 0: no limit.",
  }),

  // Authentication
  SVC_OIDC_CONFIG: row({
    kind: json(oidcConfigTakes, checkOidcConfig),
    default: null,
    roles: keyed,
    help: "Accepted OpenID Connect issuers; unset: OIDC is off.",
  }),
  SVC_BOOTSTRAP_ADMIN: row({
    kind: text({
      takes: "user:<email>",
      placeholder: "user:email",
      pattern: new RegExp(`^user:${emailPattern}$`, "u"),
    }),
    default: null,
    roles: ["ingestion"],
    help: "First administrator of a fresh database; unset, everybody is one until somebody changes the group admins. Existing databases do not change.",
  }),
  SVC_API_KEY_CACHE_SIZE: row({
    kind: int(1, 10_000_000),
    default: 10_000,
    roles: ["ingestion", "analytics"],
    help: "Live API keys cached per process.",
  }),
  SVC_AUTH_CACHE_TTL_SECONDS: row({
    kind: seconds(0, day),
    default: 60,
    roles: keyed,
    onePerProcess: true,
    help: "How long keys, grants and groups are cached; a revocation takes effect within this time.",
  }),
  SVC_API_KEY_UNKNOWN_CACHE_TTL_SECONDS: row({
    kind: seconds(0, day),
    default: 10,
    roles: ["ingestion", "analytics"],
    help: "How long an unknown token is remembered as unknown.",
  }),
  SVC_API_KEY_UNKNOWN_CACHE_SIZE: row({
    kind: int(1, 10_000_000),
    default: 10_000,
    roles: ["ingestion", "analytics"],
    help: "Unknown tokens remembered per process.",
  }),
  SVC_SELF_SERVICE_MINT: row({
    kind: bool(),
    default: false,
    roles: ["web"],
    help: "Whether non-admins may mint ingestion keys.",
  }),
  SVC_SELF_SERVICE_MAX_CLAIMS_PER_CALLER: row({
    kind: int(0, 1_000_000),
    default: 25,
    roles: ["web"],
    help: "Most audiences that a non-admin may claim.",
  }),
  SVC_SELF_SERVICE_MAX_KEYS_PER_CALLER: row({
    kind: int(0, 1_000_000),
    default: 100,
    roles: ["web"],
    help: "Most live keys that a non-admin may have.",
  }),

  // Web server
  SVC_WEB_LISTEN: row({
    kind: listen(),
    default: address(3000),
    roles: ["web"],
    help: "Where the web server listens (HTTP).",
  }),
  SVC_BASE_PATH: row({
    kind: text({
      takes: "a path that starts with / and is written as browsers ask for it: no . and .., // or %, and ASCII alone",
      placeholder: "path",
      pattern: /^\/(?:(?!\.{1,2}(?:\/|$))[\w.~!$&'()*+,;=:@-]+(?:\/|$))*$/,
    }),
    default: "/",
    roles: ["web"],
    help: "Path below which the web server is reached.",
  }),
  SVC_AUTH_REDIRECT_URI: row({
    kind: uri("http", "https"),
    default: null,
    roles: ["web"],
    help: "Address of /auth/callback as the browser sees it.",
  }),
  SVC_STATE_SECRET: row({
    kind: text({ takes: "at least 16 characters", placeholder: "secret", pattern: /^.{16,}$/s }),
    default: null,
    roles: ["web"],
    secret: true,
    help: "Signs logins and seals refresh tokens; unset: a new one at every start, after which no session is refreshed.",
  }),
  SVC_WEB_CORS_ORIGIN: row({
    kind: uri("http", "https"),
    default: null,
    roles: ["web"],
    help: "Origin of a web application served elsewhere.",
  }),

  SVC_WEB_QUERY_MAX_ROWS: row({
    kind: int(1, 1_000_000_000),
    default: 1_000_000,
    roles: ["web"],
    help: "Most rows of a result of the web application; what it says then is that there are more.",
  }),
  SVC_WEB_INGESTION_URL: row({
    kind: uri("http", "https"),
    default: null,
    roles: ["web"],
    help: "Where applications reach the ingestion server, as its start page and `telemetry setup` tell people. Unset: the ingestion server of the monolith, else `SVC_TELEMETRY_URL`.",
  }),

  // Telemetry of the service itself, and of applications that send
  SVC_TELEMETRY_URL: row({
    kind: uri("http", "https"),
    default: null,
    roles: [...servers, "cli"],
    onePerProcess: true,
    help: "Ingestion server that receives the telemetry of this process; unset: none.",
  }),
  SVC_INGESTION_API_KEY: row({
    kind: text({ takes: "an API key", placeholder: "key", pattern: /^\S+$/ }),
    default: null,
    roles: [...servers, "cli"],
    secret: true,
    onePerProcess: true,
    help: "Key for SVC_TELEMETRY_URL.",
  }),
  SVC_TELEMETRY_INTERVAL_SECONDS: row({
    kind: seconds(0.1, 3600),
    default: 10,
    roles: servers,
    onePerProcess: true,
    help: "Time between two reports of the service's own metrics.",
  }),

  ...clientOptions,
} as const satisfies OptionTable;
