/** Where a client's bearer token comes from. */
import { readFile, stat } from "node:fs/promises";

/** Gives the `Authorization` value of each call; null sends none (a server with `--disable-auth`). */
export interface TokenProvider {
  /** Asked before every call, so that a provider may refresh what it holds. */
  authorization(): Promise<string | null>;
}

/** A credential that cannot be used. The message is one sentence and never holds the credential. */
export class CredentialError extends Error {
  override readonly name = "CredentialError";
}

/** Sends no credential. */
export const noToken: TokenProvider = { authorization: () => Promise.resolve(null) };

/**
 * Sends `key` verbatim as the bearer token, with no refresh.
 * @throws CredentialError when it holds a character that a header cannot carry.
 */
export function staticKey(key: string): TokenProvider {
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new CredentialError("the API key holds characters that cannot be sent in a header");
  }
  return { authorization: () => Promise.resolve(`Bearer ${key}`) };
}

/**
 * Reads a key from a file that only its owner can read (mode 0600) and sends it verbatim, without the
 * white space around it.
 * @throws CredentialError when the file is missing, empty or open to others.
 */
export async function keyFile(path: string): Promise<TokenProvider> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) {
    throw new CredentialError(`the key file ${path} cannot be read: ${found.code ?? found.message}`);
  }
  // Windows has no such bits; everything there reads as 0666.
  if (process.platform !== "win32" && (found.mode & 0o077) !== 0) {
    throw new CredentialError(`the key file ${path} can be read by others; run: chmod 600 ${path}`);
  }
  const key = (await readFile(path, "utf8")).trim();
  if (key === "") {
    throw new CredentialError(`the key file ${path} is empty`);
  }
  return staticKey(key);
}

/** A named entry of the `profiles` map of the per-user config file. */
export interface Profile {
  /** File that holds an API key, relative to the config file's directory unless absolute. */
  readonly apiKeyFile: string | null;
}

/**
 * Reads profile `name` from the per-user config file `~/.telemetry/config.json`.
 * @throws CredentialError when the file or the profile is missing or malformed.
 */
export async function readProfile(configFile: string, name: string): Promise<Profile> {
  const text = await readFile(configFile, "utf8").catch((error: NodeJS.ErrnoException) => error);
  if (text instanceof Error) {
    throw new CredentialError(
      `profile ${name} was asked for, but ${configFile} cannot be read: ${text.code ?? text.message}`,
    );
  }
  const profiles = member(parseJson(text, configFile), "profiles");
  if (profiles === undefined) {
    throw new CredentialError(`profile ${name} was asked for, but ${configFile} has no map "profiles"`);
  }
  const profile = member(profiles, name);
  if (typeof profile !== "object" || profile === null) {
    throw new CredentialError(`${configFile} has no profile named ${name}`);
  }
  const apiKeyFile = member(profile, "api_key_file");
  if (apiKeyFile !== undefined && typeof apiKeyFile !== "string") {
    throw new CredentialError(`api_key_file of profile ${name} in ${configFile} is not a string`);
  }
  return { apiKeyFile: apiKeyFile ?? null };
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CredentialError(`${file} is not valid JSON`, { cause: error });
  }
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) {
    return undefined;
  }
  return (value as Record<string, unknown>)[name];
}
