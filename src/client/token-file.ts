/**
 * The client's token file: JSON with the tokens of a login, in a file that only its owner can read. A
 * file that holds nothing but an identity token is taken too.
 */
import { readFile, stat } from "node:fs/promises";
import path from "node:path";

import { CredentialError } from "./credentials.js";

const maxFileBytes = 1024 * 1024;
const compactJwt = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;

/**
 * Where the tokens of a profile are: `tokens.json`, or `tokens-<profile>.json` for a named one, in the
 * per-user directory.
 */
export function tokenFilePath(userDirectory: string, profile: string | null): string {
  return path.join(userDirectory, profile === null ? "tokens.json" : `tokens-${profile}.json`);
}

/**
 * The identity token of a token file: `token.id_token` of the JSON, or the whole file.
 * @throws CredentialError in one sentence when the file is missing, open to others or holds none.
 */
export async function readIdentityToken(file: string): Promise<string> {
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) {
    throw new CredentialError(
      found.code === "ENOENT"
        ? `there is no token file ${file}; log in with a browser and put the id_token cookie into it, or name another with --token-file`
        : `the token file ${file} cannot be read: ${found.code ?? found.message}`,
    );
  }
  if (!found.isFile() || found.size > maxFileBytes) {
    throw new CredentialError(`the token file ${file} is not a file of tokens`);
  }
  // Windows has no such bits; everything there reads as 0666.
  if (process.platform !== "win32" && (found.mode & 0o077) !== 0) {
    throw new CredentialError(`the token file ${file} can be read by others; run: chmod 600 ${file}`);
  }
  const token = identityTokenIn((await readFile(file, "utf8")).trim());
  if (token === null) {
    throw new CredentialError(`the token file ${file} holds no identity token`);
  }
  return token;
}

function identityTokenIn(text: string): string | null {
  if (compactJwt.test(text)) {
    return text;
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Neither a token nor JSON: the caller says so, without the content.
    return null;
  }
  const token = member(member(value, "token"), "id_token");
  return typeof token === "string" && compactJwt.test(token) ? token : null;
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) {
    return undefined;
  }
  return (value as Record<string, unknown>)[name];
}
