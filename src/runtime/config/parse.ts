/** Variables and flags to the typed configuration of a role. */

import { isLoopbackHost } from "telemetry-service-client/shared/loopback";
import { helpText } from "./help.js";
import type { ListenAddress } from "./kinds.js";
import { options } from "./options.js";
import { ConfigError, type Environment, readFlags, readValue, sourcesOf, suggestion } from "./parse-options.js";
import {
  type MonolithRole,
  type OptionRow,
  type OptionTable,
  type OptionValues,
  type PrefixRole,
  type Role,
  type RowsOf,
  isVariable,
  monolithRoles,
  prefixRoles,
  propertyOf,
  reads,
  roleForm,
} from "./table.js";

type OwnValues<R extends Role> = OptionValues<RowsOf<typeof options, R>>;

/**
 * The configuration of a role. The monolith has, beside its own values, one configuration per role
 * it can play, in which `SVC_INGESTION_X` and `SVC_ANALYTICS_X` have overridden `SVC_X`. A server of one
 * role reads the forms of its own role likewise.
 */
export type Config<R extends Role> = R extends "monolith"
  ? OwnValues<"monolith"> & { readonly byRole: { readonly [P in MonolithRole]: OwnValues<P> } }
  : OwnValues<R>;

/** What a command line asks for. */
type CommandLine<R extends Role> =
  | {
      readonly kind: "run";
      readonly config: Config<R>;
      /** One sentence each, to be logged: variables that are set but not read. */
      readonly warnings: readonly string[];
    }
  | { readonly kind: "print"; readonly text: string };

/** What {@link parseCommandLine} prints about the program. */
interface Program {
  readonly name: string;
  readonly version: string;
  /** One sentence on what it does. */
  readonly summary: string;
}

/**
 * Reads the command line of a server: `--help` and `--version` ask for a text to print, everything
 * else for the configuration.
 * @throws ConfigError with every problem.
 */
export function parseCommandLine<R extends Role>(
  role: R,
  program: Program,
  argv: readonly string[],
  env: Environment,
): CommandLine<R> {
  const own = beforeDoubleDash(argv);
  if (own.includes("--help") || own.includes("-h")) {
    return { kind: "print", text: helpText(program, rowsFor(role), formsReadBy(role)) };
  }
  if (own.includes("--version")) {
    return { kind: "print", text: `${program.name} ${program.version}\n` };
  }
  return {
    kind: "run",
    config: parseConfig(role, argv, env),
    warnings: environmentWarnings(role, env),
  };
}

/**
 * Reads the configuration of a role; flags win over variables, variables over defaults.
 * @throws ConfigError with every problem, each naming the variable or flag and what it takes.
 */
export function parseConfig<R extends Role>(role: R, argv: readonly string[], env: Environment): Config<R> {
  const { texts, positionals, problems: flagProblems } = readFlags(withForms(role), argv);
  const problems = [...flagProblems];
  for (const extra of positionals) {
    problems.push(`unexpected argument ${JSON.stringify(extra)}; see --help`);
  }
  const readAll = (rows: OptionTable, forms: readonly PrefixRole[]): Record<string, unknown> => {
    const values: Record<string, unknown> = {};
    for (const [name, option] of Object.entries(rows)) {
      const names = [...forms.flatMap((part) => roleForm(name, option, part) ?? []), name];
      values[propertyOf(name)] = readValue(option, sourcesOf(names, texts, env), problems);
    }
    return values;
  };
  const values = readAll(rowsFor(role), role === "monolith" ? [] : formsReadBy(role));
  if (role === "monolith") {
    values["byRole"] = Object.fromEntries(
      monolithRoles.map((part) => [part, readAll(rowsFor(part), formsReadBy(part))]),
    );
  }
  checkTogether(values, problems);
  const distinct = [...new Set(problems)]; // on the monolith several roles read the same text
  if (distinct.length > 0) {
    throw new ConfigError(distinct);
  }
  // Every property was read by its row's kind, which is what Config says.
  return values as Config<R>;
}

/** The rows of the service's table that `role` reads. */
export function rowsFor<R extends Role>(role: R): RowsOf<typeof options, R> {
  const rows = Object.fromEntries(Object.entries(options).filter(([, option]) => reads(role, option)));
  return rows as RowsOf<typeof options, R>;
}

/** Whose forms of an option `role` reads: the monolith those of all roles, a server those of its own. */
function formsReadBy(role: Role): readonly PrefixRole[] {
  return role === "monolith" ? prefixRoles : prefixRoles.filter((part) => part === role);
}

/** The rows that `role` reads, once for every name of each. */
function withForms(role: Role): OptionTable {
  const rows = Object.entries<OptionRow>(rowsFor(role));
  const forms = rows.flatMap(([name, option]) =>
    formsReadBy(role).flatMap((part) => {
      const form = roleForm(name, option, part);
      return form === null ? [] : [[form, option] as const];
    }),
  );
  return Object.fromEntries([...rows, ...forms]);
}

/** Problems that no single option shows. */
function checkTogether(values: Readonly<Record<string, unknown>>, problems: string[]): void {
  for (const server of ["ANALYTICS", "OTLP_GRPC"]) {
    const [certificate, key] = [`SVC_${server}_TLS_CERT_FILE`, `SVC_${server}_TLS_KEY_FILE`] as const;
    if (((values[propertyOf(certificate)] ?? null) === null) !== ((values[propertyOf(key)] ?? null) === null)) {
      problems.push(`${certificate} and ${key} take a path only together`);
    }
  }
  if (((values["objectCacheUri"] ?? null) === null) !== ((values["objectCacheApiKey"] ?? null) === null)) {
    problems.push("SVC_OBJECT_CACHE_URI and SVC_OBJECT_CACHE_API_KEY take a value only together");
  }
  const identityProvider = (values["developmentOidcListen"] ?? null) as ListenAddress | null;
  if (identityProvider !== null && values["development"] !== true) {
    problems.push("SVC_DEVELOPMENT_OIDC_LISTEN is for development mode only: at that address anybody can be anybody");
  }
  if (identityProvider !== null && !isLoopbackHost(identityProvider.host)) {
    problems.push(
      "SVC_DEVELOPMENT_OIDC_LISTEN takes a loopback address, such as 127.0.0.1:3001: at that address anybody can be anybody",
    );
  }
  const byRole = values["byRole"] as Record<"ingestion", typeof values> | undefined;
  const ingestion = byRole?.ingestion ?? values;
  if (ingestion["refuseUnstamped"] === true && ingestion["disableAuth"] === true) {
    problems.push(
      "SVC_REFUSE_UNSTAMPED and SVC_DISABLE_AUTH exclude each other: without authentication no telemetry has an audience",
    );
  }
}

/** Variables named like the service's that nobody reads, or that this role no longer reads. */
function environmentWarnings(role: Role, env: Environment): string[] {
  const known = new Set<string>(Object.keys(options));
  const ofOthers = new Map<string, PrefixRole>();
  const own = formsReadBy(role);
  for (const [name, option] of Object.entries<OptionRow>(options)) {
    for (const part of prefixRoles) {
      const form = roleForm(name, option, part);
      if (form === null) {
        continue;
      }
      known.add(form);
      if (!own.includes(part)) {
        ofOthers.set(form, part);
      }
    }
  }
  const warnings: string[] = [];
  for (const name of Object.keys(env)) {
    if (!isVariable(name) || env[name] === undefined || env[name] === "") {
      continue;
    }
    if (role !== "object-cache" && /^SVC_(INGESTION_|ANALYTICS_)?API_KEYS$/.test(name)) {
      warnings.push(`${name} is set but not read: keys live in the database`);
      continue;
    }
    const other = ofOthers.get(name);
    if (other !== undefined) {
      warnings.push(`${name} is set but not read: only the ${other} role reads it`);
    } else if (!known.has(name)) {
      warnings.push(`${name} is set but is not a known variable${suggestion(name, [...known])}`);
    }
  }
  return warnings;
}

function beforeDoubleDash(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf("--");
  return end === -1 ? argv : argv.slice(0, end);
}
