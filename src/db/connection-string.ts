/** The connection string of Postgres: what the driver takes otherwise than libpq, whose strings operators bring along. */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { type ConnectionOptions, createSecureContext } from "node:tls";

import { ServiceError } from "../runtime/errors.js";

type Ssl = boolean | "prefer" | ConnectionOptions;

/** libpq's modes. Without one there is no TLS. */
const sslModes: Readonly<Record<string, Ssl>> = {
  disable: false,
  allow: "prefer",
  prefer: "prefer",
  require: { rejectUnauthorized: false },
  "verify-ca": { checkServerIdentity: () => undefined },
  "verify-full": {},
};

/** libpq's. */
const sslNegotiations: ReadonlySet<string> = new Set(["postgres", "direct"]);

/** Values of `ssl`, which the driver takes like `sslmode`, and other libraries have. */
const otherModes: Readonly<Record<string, string>> = { true: "verify-full", false: "disable" };

/** Options of the driver, which it would take from here: some end sessions that hold locks, or change what values are. */
const driverOptions = [
  "backoff",
  "debug",
  "fetch_types",
  "idle_timeout",
  "keep_alive",
  "max",
  "max_lifetime",
  "max_pipeline",
  "no_prepare",
  "prepare",
  "publications",
];

/** Beside those, parameters of libpq that Postgres does not know, and that the driver would send to it. */
const notTaken: ReadonlySet<string> = new Set([
  ...driverOptions,
  "channel_binding",
  "fallback_application_name",
  "gssdelegation",
  "gssencmode",
  "gsslib",
  "hostaddr",
  "keepalives",
  "keepalives_count",
  "keepalives_idle",
  "keepalives_interval",
  "krbsrvname",
  "load_balance_hosts",
  "passfile",
  "max_protocol_version",
  "min_protocol_version",
  "require_auth",
  "requirepeer",
  "requiressl",
  "service",
  "ssl_max_protocol_version",
  "ssl_min_protocol_version",
  "sslcertmode",
  "sslcompression",
  "sslcrl",
  "sslcrldir",
  "sslpassword",
  "sslsni",
]);

/** A connection string as the driver takes it, and its TLS, which is undefined when the string does not say. */
interface ReadConnectionString {
  readonly connectionString: string;
  readonly ssl: Ssl | undefined;
}

/**
 * Takes libpq's parameters of TLS out of a connection string.
 * @param fixed parameters that the service sets itself
 * @throws ServiceError NOT_CONFIGURED for a parameter that is not taken, and for a file that cannot be read
 */
export function readConnectionString(text: string, fixed: ReadonlySet<string>): ReadConnectionString {
  const mark = text.indexOf("?");
  if (mark === -1) {
    return { connectionString: text, ssl: undefined };
  }
  const parameters = new URLSearchParams(text.slice(mark + 1));
  const refused = [...parameters.keys()].filter((name) => notTaken.has(name) || fixed.has(name.toLowerCase()));
  if (refused.length > 0) {
    throw refusal(`has parameters that this service does not take: ${refused.join(", ")}. Leave them out`);
  }
  const negotiation = parameters.get("sslnegotiation");
  if (negotiation !== null && !sslNegotiations.has(negotiation)) {
    throw refusal(`has the unknown sslnegotiation ${negotiation}: take postgres or direct`);
  }
  const take = (name: string): string | null => {
    const value = parameters.get(name);
    parameters.delete(name);
    return value;
  };
  const rootFile = take("sslrootcert");
  const ssl = take("ssl");
  const mode =
    take("sslmode") ??
    (ssl === null ? null : (otherModes[ssl] ?? ssl)) ??
    (rootFile === "system" ? "verify-full" : null);
  // Of several hosts, none that is an address gets through.
  const address = URL.canParse(text) ? new URL(text).hostname.replaceAll(/[[\]]/gu, "") : "several";
  const files = readFiles({ ca: rootFile === "system" ? null : rootFile, cert: take("sslcert"), key: take("sslkey") });
  return { connectionString: `${text.slice(0, mark)}?${parameters.toString()}`, ssl: sslOf(mode, files, address) };
}

/** @param host what the certificate is of, where the driver does not name it: it does not for addresses */
function sslOf(mode: string | null, files: ConnectionOptions, host: string): Ssl | undefined {
  if (mode === null) {
    if (Object.keys(files).length > 0) {
      throw refusal("names certificates and no sslmode: add sslmode=verify-full");
    }
    return undefined;
  }
  // As in libpq: who names an authority wants it asked.
  const ssl = sslModes[mode === "require" && files.ca !== undefined ? "verify-ca" : mode];
  if (ssl === undefined) {
    throw refusal(`has the unknown sslmode ${mode}: take one of ${Object.keys(sslModes).join(", ")}`);
  }
  return typeof ssl === "object" ? { ...ssl, ...files, host } : ssl;
}

/** Of the names that are not null. */
function readFiles(names: Readonly<Record<"ca" | "cert" | "key", string | null>>): ConnectionOptions {
  const files: ConnectionOptions = {};
  for (const [what, name] of Object.entries(names)) {
    if (name !== null) {
      try {
        Object.assign(files, { [what]: readFileSync(name) });
      } catch (cause) {
        throw refusal(`names ${name}, which cannot be read`, cause);
      }
    }
  }
  try {
    createSecureContext(files);
    if (names.ca !== null) {
      // The context takes any text for one.
      void new X509Certificate(files.ca as Buffer);
    }
  } catch (cause) {
    throw refusal("names certificates or a key that are not PEM, or do not fit, or have a passphrase", cause);
  }
  return files;
}

function refusal(what: string, cause?: unknown): ServiceError {
  return new ServiceError("NOT_CONFIGURED", `SVC_SQL_CONNECTION_STRING ${what}.`, { cause });
}
