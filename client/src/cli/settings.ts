/** Settings of commands: flags, and the environment variables that they override. */
import { type Command, Option } from "commander";

import { isFlightSqlUri } from "../flight/flight-address.js";
import { UsageError } from "./context.js";

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** One setting. */
export interface Setting<T> {
  /** Without the dashes. */
  readonly flag: string;
  /** Read where the flag is not given; empty counts as unset. */
  readonly variable?: string;
  /** Null for a switch. */
  readonly placeholder: string | null;
  /** Completes "--flag takes ...". */
  readonly takes: string;
  readonly help: string;
  readonly fallback: T;
  /** Undefined for what it does not take. */
  readonly parse: (text: string) => T | undefined;
  /** Never printed. */
  readonly secret?: boolean;
  /** Its values, for completion. */
  readonly choices?: readonly string[];
}

/** What every setting has. */
interface Common {
  readonly variable?: string;
  readonly help: string;
  readonly secret?: boolean;
}

/** A text, of which `pattern` says what it may be. */
export function text<D extends string | null>(
  flag: string,
  o: Common & {
    readonly fallback: D;
    readonly placeholder: string;
    readonly takes?: string;
    readonly pattern?: RegExp;
  },
): Setting<string | D> {
  const parse = (given: string): string | undefined =>
    given !== "" && (o.pattern === undefined || o.pattern.test(given)) ? given : undefined;
  return { ...o, flag, takes: o.takes ?? "a text that is not empty", parse };
}

/** A whole number of at least `min`, and at most `max`. */
export function whole<D extends number | null>(
  flag: string,
  o: Common & { readonly fallback: D; readonly min: number; readonly max?: number },
): Setting<number | D> {
  const { min, max = Number.MAX_SAFE_INTEGER } = o;
  const parse = (given: string): number | undefined => {
    const value = /^\d{1,15}$/.test(given) ? Number(given) : Number.NaN;
    return value >= min && value <= max ? value : undefined;
  };
  return {
    ...o,
    flag,
    placeholder: "number",
    takes: `a whole number from ${min}${o.max === undefined ? "" : ` to ${max}`}`,
    parse,
  };
}

/** One of some words. */
export function oneOf<const W extends string, D extends W | null>(
  flag: string,
  choices: readonly W[],
  o: Common & { readonly fallback: D },
): Setting<W | D> {
  const parse = (given: string): W | undefined => choices.find((choice) => choice === given);
  return { ...o, flag, choices, placeholder: choices.join("|"), takes: `one of ${choices.join(", ")}`, parse };
}

/** An address with one of some schemes. */
export function address<D extends string | null>(
  flag: string,
  schemes: readonly string[],
  o: Common & { readonly fallback: D },
): Setting<string | D> {
  const starts = schemes.map((scheme) => `${scheme}://`);
  const parse = (given: string): string | undefined =>
    URL.canParse(given) && starts.some((start) => given.startsWith(start)) ? given : undefined;
  return { ...o, flag, placeholder: "address", takes: `an address that starts with ${starts.join(" or ")}`, parse };
}

/** On when it is given. */
export function flag(name: string, help: string): Setting<boolean> {
  return { flag: name, placeholder: null, takes: "no value", help, fallback: false, parse: () => true };
}

/** Settings by the names that a command reads them under. */
type Settings = Readonly<Record<string, Setting<unknown>>>;

/** The values of settings. */
export type Values<S extends Settings> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never };

/** Makes a command take settings. */
export function addSettings(command: Command, settings: Settings): void {
  for (const setting of Object.values(settings)) {
    const flags = `--${setting.flag}${setting.placeholder === null ? "" : ` <${setting.placeholder}>`}`;
    const variable = setting.variable === undefined ? "" : ` [${setting.variable}]`;
    const shown = typeof setting.fallback === "string" ? ` (default: ${setting.fallback})` : "";
    const option = new Option(flags, `${setting.help}${variable}${shown}`);
    if (setting.choices !== undefined) {
      option.argChoices = [...setting.choices];
    }
    command.addOption(option);
  }
}

/** Reads settings: the flag, else the variable, else the default. @throws UsageError for what a setting does not take */
export function readSettings<S extends Settings>(command: Command, env: Environment, settings: S): Values<S> {
  const given = command.opts<Record<string, string | boolean | undefined>>();
  const values = Object.entries(settings).map(([name, setting]) => {
    const byFlag = given[camelCase(setting.flag)];
    const byVariable =
      setting.variable === undefined || env[setting.variable] === "" ? undefined : env[setting.variable];
    const textGiven = byFlag === undefined ? byVariable : String(byFlag);
    if (textGiven === undefined) {
      return [name, setting.fallback];
    }
    const value = setting.parse(textGiven);
    if (value === undefined) {
      const label = byFlag === undefined ? (setting.variable ?? "") : `--${setting.flag}`;
      const got = setting.secret === true ? "" : `; got ${JSON.stringify(textGiven.slice(0, 200))}`;
      throw new UsageError(`${label} takes ${setting.takes}${got}`);
    }
    return [name, value];
  });
  // Every value was read by its setting, which is what Values says.
  return Object.fromEntries(values) as Values<S>;
}

function camelCase(name: string): string {
  return name.replaceAll(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

const key = { takes: "an API key", placeholder: "key", pattern: /^\S+$/, fallback: null, secret: true } as const;

/** Settings that several commands have. */
export const shared = {
  json: flag("json", "prints JSON, for programs"),
  analyticsUri: {
    ...address("analytics-uri", ["grpc", "grpc+tls"], {
      variable: "SVC_ANALYTICS_URI",
      fallback: "grpc://localhost:50051",
      help: "analytics server to query",
    }),
    takes: "grpc://host:port or grpc+tls://host:port",
    parse: (given: string) => (isFlightSqlUri(given) ? given : undefined),
  },
  analyticsApiKey: text("analytics-api-key", {
    ...key,
    variable: "SVC_ANALYTICS_API_KEY",
    help: "key for the analytics server; without one, the login is used",
  }),
  profile: text("profile", {
    variable: "SVC_PROFILE",
    takes: "a name of letters, digits, _ . or -",
    placeholder: "name",
    pattern: /^[A-Za-z0-9_.-]+$/,
    fallback: null,
    help: "profile that ~/.telemetry/config.json defines",
  }),
  webUrl: address("web-url", ["http", "https"], {
    variable: "SVC_WEB_URL",
    fallback: "http://localhost:3000",
    help: "web server, with its base path",
  }),
} as const;

/** Settings of everything that may log somebody in. */
export const loginSettings = {
  profile: shared.profile,
  issuer: address("oidc-issuer", ["https", "http"], {
    variable: "SVC_OIDC_ISSUER",
    fallback: null,
    help: "OpenID Connect provider; unset: that of the last login",
  }),
  clientId: text("oidc-client-id", {
    variable: "SVC_OIDC_CLIENT_ID",
    placeholder: "id",
    fallback: null,
    help: "id of this client at the provider; unset: that of the last login",
  }),
  clientSecret: text("oidc-client-secret", {
    variable: "SVC_OIDC_CLIENT_SECRET",
    placeholder: "secret",
    fallback: null,
    secret: true,
    help: "for providers that want one even with PKCE",
  }),
  oidcAudience: text("oidc-audience", {
    variable: "SVC_OIDC_AUDIENCE",
    placeholder: "audience",
    fallback: null,
    help: "API audience, for providers that want one",
  }),
  scope: text("oidc-scope", {
    variable: "SVC_OIDC_SCOPE",
    placeholder: "scopes",
    fallback: "openid email profile offline_access",
    help: "what to ask the provider for",
  }),
  noBrowser: flag("no-browser", "prints the address of the login page and opens nothing"),
  device: flag("device", "logs in with a browser on another machine, by a code"),
  callbackPort: whole("callback-port", {
    min: 1,
    max: 65_535,
    fallback: 48_080,
    help: "loopback port to which the browser comes back; the provider has to allow it",
  }),
} as const;

/** Values of {@link loginSettings}. */
export type LoginValues = Values<typeof loginSettings>;
