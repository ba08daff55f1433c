/**
 * The client's token file: JSON with the tokens of a login, in a file that only its owner can read. A
 * file that holds nothing but an identity token is taken too.
 */
import { mkdir, readFile, readdir, stat } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";

import { writePrivateFile } from "../shared/private-file.js";
import { isOpenToOthers } from "./auth-provider.js";
import { CredentialError } from "./credential-error.js";
import { underFileLock } from "./file-lock.js";
import { member } from "../shared/json-member.js";

const maxFileBytes = 1024 * 1024;
const compactJwt = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

/** The tokens of a login. */
export interface StoredLogin {
  readonly issuer: string;
  readonly clientId: string;
  readonly accessToken: string;
  readonly refreshToken: string | null;
  readonly idToken: string | null;
  /** When the bearer token expires, seconds since the Unix epoch by this machine's clock. */
  readonly expiresAt: number;
}

/** `~/.telemetry`, where the client's per-user files are. */
export function userDirectory(home: string = homedir()): string {
  return path.join(home, ".telemetry");
}

/**
 * Where the tokens of a profile are: `tokens.json`, or `tokens-<profile>.json` for a named one, in the
 * per-user directory.
 */
export function tokenFilePath(directory: string, profile: string | null): string {
  return path.join(directory, profile === null ? "tokens.json" : `tokens-${profile}.json`);
}

/** The token files of all profiles that there are. */
export async function tokenFiles(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") {
      return [];
    }
    throw error;
  });
  return names
    .filter((name) => /^tokens(?:-[A-Za-z0-9_.-]+)?\.json$/.test(name))
    .sort()
    .map((name) => path.join(directory, name));
}

/**
 * Runs `work` while nobody else changes a token file. Who writes or removes one does so here: a refresh that is under
 * way would write what was removed again, and a login overwrite a newer one.
 * @throws AbortError when the signal ends the wait
 */
export function underTokenLock<T>(file: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return underFileLock(`${file}.lock`, work, { signal });
}

/**
 * Reads a login.
 * @returns `missing` without a file, `damaged` for one that holds no login: half written, or something else
 * @throws CredentialError when it is open to others or cannot be read
 */
export async function readLogin(file: string): Promise<StoredLogin | "missing" | "damaged"> {
  const text = await readOwnFile(file);
  if (text === null) {
    return "missing";
  }
  const content = parsed(text);
  const token = member(content, "token");
  const issuer = member(content, "issuer");
  const clientId = member(content, "client_id");
  const expiresAt = member(token, "expires_at");
  const accessToken = textOf(member(token, "access_token"));
  if (
    typeof issuer !== "string" ||
    typeof clientId !== "string" ||
    typeof expiresAt !== "number" ||
    !Number.isFinite(expiresAt) ||
    accessToken === null
  ) {
    return "damaged";
  }
  return {
    issuer,
    clientId,
    accessToken,
    refreshToken: textOf(member(token, "refresh_token")),
    idToken: textOf(member(token, "id_token")),
    expiresAt,
  };
}

/** Replaces a token file as a whole, which takes its lock: whoever reads it finds the old login or the new one. */
export async function writeLogin(file: string, login: StoredLogin): Promise<void> {
  const content = {
    issuer: login.issuer,
    client_id: login.clientId,
    token: {
      access_token: login.accessToken,
      refresh_token: login.refreshToken,
      id_token: login.idToken,
      expires_at: login.expiresAt,
    },
  };
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  await writePrivateFile(file, `${JSON.stringify(content, null, 2)}\n`);
}

/**
 * The identity token of a token file: `token.id_token` of the JSON, or the whole file.
 * @throws CredentialError in one sentence when the file is missing, open to others or holds none.
 */
export async function readIdentityToken(file: string): Promise<string> {
  const text = await readOwnFile(file);
  if (text === null) {
    throw new CredentialError(
      "LOGIN_REQUIRED",
      `there is no token file ${file}; run: telemetry login, or name another with --token-file`,
    );
  }
  const token = compactJwt.test(text) ? text : member(member(parsed(text), "token"), "id_token");
  if (typeof token !== "string" || !compactJwt.test(token)) {
    throw new CredentialError("FILE", `the token file ${file} holds no identity token; run: telemetry login`);
  }
  return token;
}

/** The text of a file that only its owner can read, without outer white space; null without a file. */
async function readOwnFile(file: string): Promise<string | null> {
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) {
    if (found.code === "ENOENT") {
      return null;
    }
    throw new CredentialError("FILE", `the token file ${file} cannot be read: ${found.code ?? found.message}`);
  }
  if (!found.isFile() || found.size > maxFileBytes) {
    throw new CredentialError("FILE", `the token file ${file} is not a file of tokens`);
  }
  if (isOpenToOthers(found)) {
    throw new CredentialError("FILE_MODE", `the token file ${file} can be read by others; run: chmod 600 ${file}`);
  }
  return (await readFile(file, "utf8")).trim();
}

/** Undefined for what is no JSON: the caller says so, without the content. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
