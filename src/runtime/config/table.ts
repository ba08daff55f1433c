/** The shape of an option table, and the types and names that follow from it. */

import type { AnyKind, Kind } from "./kinds.js";

/**
 * The processes that read options. The monolith reads the rows of ingestion, analytics, maintenance and web, and its
 * own.
 */
export const roles = ["ingestion", "analytics", "web", "maintenance", "object-cache", "cli", "monolith"] as const;

/** A process that reads options. */
export type Role = (typeof roles)[number];

/** The roles that a monolith can play. */
export const monolithRoles = ["ingestion", "analytics", "maintenance", "web"] as const;

/** A role that a monolith can play. */
export type MonolithRole = (typeof monolithRoles)[number];

/** One option. */
export interface OptionRow {
  readonly kind: AnyKind;
  /** The value when nothing is given; null: there is none. */
  readonly default: unknown;
  /** Who reads it. */
  readonly roles: readonly Role[];
  /** One sentence for the help text. */
  readonly help: string;
  /** Never printed: not in errors, not in help, not in the log. */
  readonly secret?: boolean;
  /** A process has one value of it, whichever roles it plays; see {@link roleForm}. */
  readonly onePerProcess?: boolean;
  /** The empty string is a value. Elsewhere an empty variable counts as unset. */
  readonly emptyAllowed?: boolean;
}

/**
 * Options by name. A name that starts with `SVC_` is an environment variable, whose flag is the rest
 * in kebab case; any other name (in kebab case) is a flag without a variable.
 */
export type OptionTable = Readonly<Record<string, OptionRow>>;

type CamelCase<S extends string, Separator extends string> = S extends `${infer Head}${Separator}${infer Tail}`
  ? `${Lowercase<Head>}${Capitalize<CamelCase<Tail, Separator>>}`
  : Lowercase<S>;

/** `SVC_INGESTION_LISTEN` is `ingestionListen` in a configuration, `dry-run` is `dryRun`. */
type PropertyName<Name extends string> = Name extends `SVC_${infer Rest}` ? CamelCase<Rest, "_"> : CamelCase<Name, "-">;

type RowValue<Row> = Row extends {
  readonly kind: { readonly format: (value: infer T) => string };
  readonly default: infer D;
}
  ? null extends D
    ? T | null
    : T
  : never;

/** The values of a table. */
export type OptionValues<Table extends OptionTable> = {
  readonly [Name in keyof Table & string as PropertyName<Name>]: RowValue<Table[Name]>;
};

/** The rows of a table that a role reads. */
export type RowsOf<Table extends OptionTable, R extends Role> = {
  readonly [
    Name in keyof Table as RoleReads<R> & Table[Name]["roles"][number] extends never ? never : Name
  ]: Table[Name];
};

type RoleReads<R extends Role> = R extends "monolith" ? MonolithRole | "monolith" : R;

/** A row whose default fits its kind. */
export function row<T, const D extends T | null, const R extends readonly Role[]>(o: {
  readonly kind: Kind<T>;
  readonly default: D;
  readonly roles: R;
  readonly help: string;
  readonly secret?: boolean;
  readonly onePerProcess?: boolean;
  readonly emptyAllowed?: boolean;
}): Omit<OptionRow, "kind" | "default" | "roles"> & {
  readonly kind: Kind<T>;
  readonly default: D;
  readonly roles: R;
} {
  return o;
}

/** `--ingestion-listen` for `SVC_INGESTION_LISTEN`, `--dry-run` for `dry-run`. */
export function flagOf(name: string): string {
  return `--${isVariable(name) ? name.slice(4).toLowerCase().replaceAll("_", "-") : name}`;
}

/** The property of an option in a configuration; see {@link PropertyName}. */
export function propertyOf(name: string): string {
  return flagOf(name)
    .slice(2)
    .replaceAll(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** Whether an option can be given by an environment variable. */
export function isVariable(name: string): boolean {
  return name.startsWith("SVC_");
}

/** The roles whose name may be part of an option's name. */
export const prefixRoles = ["ingestion", "analytics"] as const;

/** A role whose name may be part of an option's name. */
export type PrefixRole = (typeof prefixRoles)[number];

/**
 * `SVC_INGESTION_X` for `SVC_X`: the form of an option that overrides it for one role. Options that both
 * roles read have such forms, except what a process has once; null for all others.
 */
export function roleForm(name: string, option: OptionRow, role: PrefixRole): string | null {
  const shared = prefixRoles.every((part) => option.roles.includes(part));
  return isVariable(name) && shared && option.onePerProcess !== true
    ? `SVC_${role.toUpperCase()}_${name.slice("SVC_".length)}`
    : null;
}

/** Whether `role` reads the row. */
export function reads(role: Role, o: OptionRow): boolean {
  return o.roles.includes(role) || (role === "monolith" && monolithRoles.some((part) => o.roles.includes(part)));
}
