/**
 * The secrets of the identity provider and of its client, the web server: made once, and kept, so that tokens and
 * sessions outlive a restart.
 */
import { generateKeyPair, randomBytes } from "node:crypto";
import { promisify } from "node:util";

import { ServiceError } from "../runtime/errors.js";
import { readPrivateFile, writePrivateFile } from "telemetry-service-client/shared/private-file";

/** What the file holds. */
export interface IdentitySecrets {
  /** RSA, private, as a JWK with `kid`. */
  readonly signingKey: Readonly<Record<string, string>>;
  /** Of the web server's client. */
  readonly clientSecret: string;
  /** Signs the provider's cookies. */
  readonly cookieKey: string;
  /** Of the web server: seals refresh tokens. */
  readonly stateSecret: string;
}

/**
 * Reads the secrets of a file, or makes them.
 * @throws ServiceError NOT_CONFIGURED when the file holds something else.
 */
export async function loadSecrets(file: string): Promise<IdentitySecrets> {
  const text = await readPrivateFile(file);
  if (text !== null) {
    return parse(text, file);
  }
  const secrets: IdentitySecrets = {
    signingKey: await makeSigningKey(),
    clientSecret: randomText(),
    cookieKey: randomText(),
    stateSecret: randomText(),
  };
  await writePrivateFile(file, `${JSON.stringify(secrets, null, 2)}\n`);
  return secrets;
}

/** RS256 is what every client can verify. */
async function makeSigningKey(): Promise<Record<string, string>> {
  const { privateKey } = await promisify(generateKeyPair)("rsa", { modulusLength: 2048 });
  const jwk = privateKey.export({ format: "jwk" }) as Record<string, string>;
  return { ...jwk, kid: randomBytes(8).toString("hex"), alg: "RS256", use: "sig" };
}

function randomText(): string {
  return randomBytes(32).toString("base64url");
}

function parse(text: string, file: string): IdentitySecrets {
  let found: Partial<IdentitySecrets> | null = null;
  try {
    found = JSON.parse(text) as Partial<IdentitySecrets> | null;
  } catch (cause) {
    throw unusable(file, cause);
  }
  const { signingKey, clientSecret, cookieKey, stateSecret } = found ?? {};
  if (typeof signingKey?.["kid"] !== "string" || !clientSecret || !cookieKey || !stateSecret) {
    throw unusable(file);
  }
  return { signingKey, clientSecret, cookieKey, stateSecret };
}

function unusable(file: string, cause?: unknown): ServiceError {
  return new ServiceError(
    "NOT_CONFIGURED",
    `${file} does not hold the secrets of the development login: remove it, and log in again`,
    { cause },
  );
}
