/**
 * The refresh token as its cookie holds it: encrypted (JWE, RFC 7516: `dir` with A256GCM) under a key of
 * `SVC_STATE_SECRET`. A stolen one is useless at the provider, and works here only until it expires. The
 * encrypted text also names the session that it continues.
 */
import { EncryptJWT, errors, jwtDecrypt } from "jose";

import { deriveKey } from "./login-state.js";

/** A session that can be continued. */
export interface RefreshableSession {
  readonly issuer: string;
  readonly subject: string;
  readonly refreshToken: string;
}

/** How long a refresh cookie is kept; a provider may end it earlier. In seconds. */
export const refreshLifeSeconds = 30 * 24 * 3600;

/** Seals and opens refresh cookies. */
export interface RefreshCookies {
  seal(session: RefreshableSession): Promise<string>;
  /** Null for anything that {@link seal} did not make under this secret, or that has expired. */
  open(value: string): Promise<RefreshableSession | null>;
}

/** @param o.secret `SVC_STATE_SECRET`; @param o.nowMs milliseconds since the epoch. */
export function createRefreshCookies(o: { readonly secret: string; readonly nowMs: () => number }): RefreshCookies {
  const key = deriveKey(o.secret, "refresh cookie");
  return {
    seal: ({ issuer, subject, refreshToken }) =>
      new EncryptJWT({ refresh_token: refreshToken })
        .setProtectedHeader({ alg: "dir", enc: "A256GCM" })
        .setIssuer(issuer)
        .setSubject(subject)
        .setExpirationTime(Math.floor(o.nowMs() / 1000) + refreshLifeSeconds)
        .encrypt(key),
    async open(value) {
      try {
        const { payload } = await jwtDecrypt(value, key, {
          keyManagementAlgorithms: ["dir"],
          contentEncryptionAlgorithms: ["A256GCM"],
          requiredClaims: ["iss", "sub", "exp"],
          currentDate: new Date(o.nowMs()),
        });
        const { iss, sub, refresh_token: refreshToken } = payload;
        return iss === undefined || sub === undefined || typeof refreshToken !== "string"
          ? null
          : { issuer: iss, subject: sub, refreshToken };
      } catch (error) {
        if (error instanceof errors.JOSEError || error instanceof TypeError) {
          return null;
        }
        throw error;
      }
    },
  };
}
