/** Where a client's bearer token comes from. */
import { readFile, stat } from "node:fs/promises";

import { CredentialError } from "./credential-error.js";

/** Gives the `Authorization` value of each call. */
export interface AuthProvider {
  /**
   * Asked before every call, so that a provider may refresh what it holds; null sends none (a server with
   * `--disable-auth`).
   * @throws CredentialError
   */
  authorization(signal?: AbortSignal): Promise<string | null>;
  /**
   * The server refused `authorization` although it has not expired: it was revoked. Gives another, at most once per
   * refused value, or null where there is none.
   * @throws CredentialError
   */
  replace?(authorization: string, signal?: AbortSignal): Promise<string | null>;
}

/** Sends no credential. */
export const noToken: AuthProvider = { authorization: () => Promise.resolve(null) };

/**
 * Sends `key` verbatim as the bearer token, with no refresh.
 * @throws CredentialError when it is missing, or holds a character that a header cannot carry.
 */
export function staticKey(key: string): AuthProvider {
  // In JavaScript, a variable of the environment that is not set. It would be sent as the key "undefined".
  if (typeof key !== "string" || key === "") {
    throw new CredentialError("INVALID_KEY", "the API key is missing");
  }
  const authorization = bearer(key);
  return { authorization: () => Promise.resolve(authorization) };
}

/** @throws CredentialError when the token holds a character that a header cannot carry. */
export function bearer(token: string): string {
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new CredentialError("INVALID_KEY", "the API key holds characters that cannot be sent in a header");
  }
  return `Bearer ${token}`;
}

/**
 * Reads a key from a file that only its owner can read (mode 0600) and sends it verbatim, without the white space
 * around it. The file is read when the key is first needed.
 */
export class StaticKeyProvider implements AuthProvider {
  readonly #file: string;
  #authorization: string | null = null;

  constructor(file: string) {
    this.#file = file;
  }

  /** @throws CredentialError when the file is missing, empty or open to others. */
  async authorization(): Promise<string> {
    this.#authorization ??= bearer(await readKeyFile(this.#file));
    return this.#authorization;
  }
}

async function readKeyFile(path: string): Promise<string> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) {
    throw new CredentialError("FILE", `the key file ${path} cannot be read: ${found.code ?? found.message}`);
  }
  if (isOpenToOthers(found)) {
    throw new CredentialError("FILE_MODE", `the key file ${path} can be read by others; run: chmod 600 ${path}`);
  }
  const key = (await readFile(path, "utf8")).trim();
  if (key === "") {
    throw new CredentialError("FILE", `the key file ${path} is empty`);
  }
  return key;
}

/** Windows has no such bits; everything there reads as 0666. */
export function isOpenToOthers({ mode }: { readonly mode: number }): boolean {
  return process.platform !== "win32" && (mode & 0o077) !== 0;
}

/** Headers as the older parameter `headers` took them. */
export type HeaderAuth = Readonly<Record<string, string>>;

/** The `authorization` of such headers, verbatim. */
export function authFromHeaders(headers: HeaderAuth): AuthProvider {
  const given = Object.entries(headers).find(([name]) => name.toLowerCase() === "authorization")?.[1] ?? null;
  return { authorization: () => Promise.resolve(given) };
}
