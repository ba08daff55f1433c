/** Keys that a server was given at its start, for one that has no database. */
import { createHash, timingSafeEqual } from "node:crypto";

import { bearerTokenStart } from "./bearer.js";

/** Tells who holds a key. */
export interface Keyring {
  /** The name that belongs to the key of an `Authorization` field; null when there is none. */
  holderOf(authorization: string): string | null;
}

/**
 * A keyring. Looking takes the same time whichever key it is, and whether it is one: hashes of equal length are
 * compared, each in constant time, and all of them every time.
 */
export function createKeyring(keys: readonly { readonly name: string; readonly key: string }[]): Keyring {
  const entries = keys.map(({ name, key }) => ({ name, hash: hashOf(key) }));
  return {
    holderOf(authorization) {
      const start = bearerTokenStart(authorization);
      if (start === -1) {
        return null;
      }
      const hash = hashOf(authorization.slice(start));
      let holder: string | null = null;
      for (const entry of entries) {
        if (timingSafeEqual(entry.hash, hash)) {
          holder = entry.name;
        }
      }
      return holder;
    },
  };
}

function hashOf(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}
