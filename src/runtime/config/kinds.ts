/** Kinds of option values: what each takes, how it is read and how a value is written down. */

/** A host and a TCP port to listen on. Port 0 picks a free one. */
export interface ListenAddress {
  /** Host name or IP address; an IPv6 address without its brackets. */
  readonly host: string;
  readonly port: number;
}

/** The outcome of reading a value. */
type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  /** `why` tells which part of a longer value is wrong. */
  | { readonly ok: false; readonly why?: string };

/** A kind of value. */
export interface Kind<T> {
  /** Completes "SVC_X takes ...". */
  readonly takes: string;
  /** Short placeholder for the help table, for example `host:port`. */
  readonly placeholder: string;
  readonly parse: (text: string) => Parsed<T>;
  readonly format: (value: T) => string;
  /** A bare flag (`--x`) means true. */
  readonly isSwitch: boolean;
}

/** A kind of any value, as an option table stores it. */
export type AnyKind = Omit<Kind<unknown>, "format"> & {
  readonly format: (value: never) => string;
};

const failed = { ok: false } as const;

function ok<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

function kind<T>(
  takes: string,
  placeholder: string,
  parse: (text: string) => Parsed<T>,
  format: (value: T) => string = String,
): Kind<T> {
  return { takes, placeholder, parse, format, isSwitch: false };
}

/** Any text; `pattern` narrows it and `takes` words what it means. */
export function text(o?: {
  readonly takes?: string;
  readonly placeholder?: string;
  readonly pattern?: RegExp;
}): Kind<string> {
  return kind(o?.takes ?? "any text", o?.placeholder ?? "text", (input) =>
    o?.pattern === undefined || o.pattern.test(input) ? ok(input) : failed,
  );
}

/** A whole number between `min` and `max`, both included. */
export function int(min: number, max: number): Kind<number> {
  return kind(`a whole number from ${min} to ${max}`, "number", (input) => {
    const value = /^-?\d{1,16}$/.test(input) ? Number(input) : Number.NaN;
    return value >= min && value <= max ? ok(value) : failed;
  });
}

/** A duration in seconds between `min` and `max`, both included; fractions are allowed. */
export function seconds(min: number, max: number): Kind<number> {
  return kind(`a number of seconds from ${min} to ${max}`, "seconds", (input) => {
    const value = /^\d{1,12}(\.\d{1,9})?$/.test(input) ? Number(input) : Number.NaN;
    return value >= min && value <= max ? ok(value) : failed;
  });
}

const byteUnits: readonly (readonly [suffix: string, bytes: number])[] = [
  ["GiB", 1024 ** 3],
  ["MiB", 1024 ** 2],
  ["KiB", 1024],
];

/** A number of bytes, with an optional suffix KiB, MiB or GiB. */
export function bytes(min: number, max: number): Kind<number> {
  return kind(
    `a number of bytes from ${formatBytes(min)} to ${formatBytes(max)}, with KiB, MiB or GiB if wanted`,
    "bytes",
    (input) => {
      const match = /^(\d{1,15})\s*(KiB|MiB|GiB|B)?$/i.exec(input);
      const suffix = match?.[2]?.toLowerCase();
      const unit = byteUnits.find(([name]) => name.toLowerCase() === suffix)?.[1] ?? 1;
      const value = match === null ? Number.NaN : Number(match[1]) * unit;
      return value >= min && value <= max ? ok(value) : failed;
    },
    formatBytes,
  );
}

function formatBytes(value: number): string {
  const unit = byteUnits.find(([, size]) => value >= size && value % size === 0);
  return unit === undefined ? String(value) : `${value / unit[1]}${unit[0]}`;
}

/** On or off. */
export function bool(): Kind<boolean> {
  const words: Readonly<Record<string, boolean>> = {
    true: true,
    on: true,
    yes: true,
    "1": true,
    false: false,
    off: false,
    no: false,
    "0": false,
  };
  const parse = (input: string): Parsed<boolean> => {
    const value = words[input.toLowerCase()];
    return value === undefined ? failed : ok(value);
  };
  return { ...kind("true or false", "", parse), isSwitch: true };
}

/** One of the given words. */
export function oneOf<const W extends readonly string[]>(...words: W): Kind<W[number]> {
  return kind(`one of ${words.join(", ")}`, words.join("|"), (input) => {
    const word = words.find((w) => w === input);
    return word === undefined ? failed : ok<W[number]>(word);
  });
}

/** `all`, or a comma-separated list of the given words; a list holds each word once, in the given order. */
export function allOrSomeOf<const W extends readonly string[]>(...words: W): Kind<"all" | readonly W[number][]> {
  return kind<"all" | readonly W[number][]>(
    `a list of ${words.join(", ")}, or all`,
    "a,b|all",
    (input) => {
      const asked = input.split(",").map((part) => part.trim());
      if (asked.length === 1 && asked[0] === "all") {
        return ok("all");
      }
      return asked.every((part) => words.includes(part)) ? ok(words.filter((word) => asked.includes(word))) : failed;
    },
    (value) => (value === "all" ? value : value.join(",")),
  );
}

/** `host:port`, `[::1]:port` for an IPv6 address; port 0 picks a free one. */
export function listen(): Kind<ListenAddress> {
  return kind(
    "host:port, with an IPv6 address in brackets ([::1]:9000); port 0 picks a free one",
    "host:port",
    (input) => {
      const match = /^(?:\[([0-9a-fA-F:.%]+)\]|([^\s:[\]]+)):(\d{1,5})$/.exec(input);
      const host = match?.[1] ?? match?.[2];
      const port = Number(match?.[3]);
      return host !== undefined && port <= 65_535 ? ok({ host, port }) : failed;
    },
    formatListenAddress,
  );
}

/** As {@link listen}; the empty string, null, is no address. For rows with `emptyAllowed`. */
export function listenOrNot(): Kind<ListenAddress | null> {
  const { takes, placeholder, parse } = listen();
  return kind<ListenAddress | null>(
    `${takes}; or the empty string for none`,
    placeholder,
    (input) => (input === "" ? ok(null) : parse(input)),
    (address) => (address === null ? "" : formatListenAddress(address)),
  );
}

/** Writes an address as {@link listen} reads it. */
export function formatListenAddress(address: ListenAddress): string {
  return address.host.includes(":") ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}

/** `host:port` for a client on this machine: a wildcard address is reached over loopback. */
export function formatReachableAddress(address: ListenAddress): string {
  if (address.host === "0.0.0.0") {
    return formatListenAddress({ ...address, host: "127.0.0.1" });
  }
  if (address.host === "::") {
    return formatListenAddress({ ...address, host: "::1" });
  }
  return formatListenAddress(address);
}

/** The address of OTLP/gRPC as SDKs take it, whose scheme says whether there is a certificate for TLS. */
export function otlpGrpcUrl(certificateFile: string | null, address: string): string {
  return `${certificateFile === null ? "http" : "https"}://${address}`;
}

/** An absolute URI with one of the given schemes (without `:`). The value is the text as it was given. */
export function uri(...schemes: readonly string[]): Kind<string> {
  return uriThat((input) => URL.canParse(input), schemes);
}

/** A connection string of Postgres, as libpq has it: it may name several hosts, each with a port. */
export function postgresUri(): Kind<string> {
  const moreHosts = /^([^/]+:\/\/(?:[^/?#]*@)?[^,/?#@]+)(?:,[^,/?#@]+)+/u;
  return uriThat((input) => URL.canParse(input.replace(moreHosts, "$1")), ["postgres", "postgresql"]);
}

function uriThat(canParse: (input: string) => boolean, schemes: readonly string[]): Kind<string> {
  const examples = schemes.map((scheme) => `${scheme}://`).join(", ");
  return kind(`a URI that starts with ${examples}`, "uri", (input) => {
    const scheme = /^([a-z][a-z0-9+.-]*):\/\/[^\s]+$/i.exec(input)?.[1]?.toLowerCase();
    return scheme !== undefined && schemes.includes(scheme) && canParse(input) ? ok(input) : failed;
  });
}

/**
 * A list of origins as browsers write them in `Origin`: `https://app.example.com`. There is no wildcard, and no `null`,
 * which files and sandboxed pages share.
 */
export function origins(): Kind<readonly string[]> {
  return kind<readonly string[]>(
    "origins (https://app.example.com) separated by commas, each in full",
    "origin,origin",
    (input) => {
      const list = input.split(",").map((part) => part.trim());
      const wrong = list.find((part) => originOf(part) !== part);
      if (wrong === undefined) {
        return ok(list);
      }
      const origin = originOf(wrong);
      return origin === null ? failed : { ok: false, why: `browsers write ${wrong} as ${origin}` };
    },
    (value) => value.join(","),
  );
}

/** Null where there is none. Browsers, if not URL, take schemes of applications (capacitor://localhost) for origins, too. */
function originOf(text: string): string | null {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^\s*@,]+$/i.test(text) || !URL.canParse(text)) {
    return null;
  }
  const { origin, protocol, host } = new URL(text);
  if (host === "") {
    return null;
  }
  return origin === "null" ? `${protocol}//${host}` : origin;
}

/** Directories of the object store, without slashes at their ends. */
export function prefixes(): Kind<readonly string[]> {
  const segment = "(?!\\.)[A-Za-z0-9._=-]+";
  const pattern = new RegExp(`^${segment}(?:/${segment})*$`, "u");
  return kind<readonly string[]>(
    "directories of the object store (letters, digits, . _ = - and / between) separated by commas",
    "path,path",
    (input) => {
      const list = input.split(",").map((part) => part.trim().replace(/\/$/u, ""));
      return list.every((part) => part.length <= 1024 && pattern.test(part)) ? ok(list) : failed;
    },
    (value) => value.join(","),
  );
}

/** A JSON document; `check` turns it into its type, or returns what is wrong with it. */
export function json<T extends object>(takes: string, check: (document: unknown) => T | string): Kind<T> {
  return kind(
    takes,
    "json",
    (input) => {
      const value = parseJson(input);
      if (value === undefined) {
        return failed;
      }
      const checked = check(value);
      return typeof checked === "string" ? { ok: false, why: checked } : ok(checked);
    },
    (value) => JSON.stringify(value),
  );
}

function parseJson(input: string): unknown {
  try {
    return JSON.parse(input);
  } catch {
    // The problem is reported by the caller in the option's own words; the text may be a secret.
    return undefined;
  }
}
