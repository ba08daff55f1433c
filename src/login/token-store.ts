/**
 * What the identity provider remembers, in memory; refresh tokens and what they were granted also in a file, so that a
 * restart ends no session. The provider's library calls such a store an adapter, and makes one for each model.
 */
import { ServiceError } from "../runtime/errors.js";
import { readPrivateFile, writePrivateFile } from "telemetry-service-client/shared/private-file";

/** What the library stores of a model; the fields that it looks things up by are named. */
interface StoredPayload {
  readonly [field: string]: unknown;
  readonly grantId?: string;
  readonly uid?: string;
  readonly userCode?: string;
  /** When it was used, in seconds since the epoch; it works once. */
  readonly consumed?: number;
}

/** What the library asks of a store, for one model. */
interface ModelStore {
  upsert(id: string, payload: StoredPayload, expiresInSeconds: number | undefined): Promise<void>;
  find(id: string): Promise<StoredPayload | undefined>;
  findByUid(uid: string): Promise<StoredPayload | undefined>;
  findByUserCode(userCode: string): Promise<StoredPayload | undefined>;
  consume(id: string): Promise<void>;
  destroy(id: string): Promise<void>;
  revokeByGrantId(grantId: string): Promise<void>;
}

/** See the head of the file. */
export interface TokenStore {
  model(name: string): ModelStore;
}

interface Entry {
  readonly payload: StoredPayload;
  /** Milliseconds since the epoch; null: never. */
  readonly expiresAtMs: number | null;
}

const keptModels = /^(?:RefreshToken|Grant):/;

/** Most things remembered: whoever reaches the provider can begin logins. Those go first, the oldest before others. */
const maxEntries = 1000;

/** @throws ServiceError NOT_CONFIGURED when the file holds something else. */
export async function openTokenStore(file: string): Promise<TokenStore> {
  const entries = new Map<string, Entry>(parse(await readPrivateFile(file), file));
  let writing: Promise<void> = Promise.resolve();

  const live = (key: string): Entry | undefined => {
    const entry = entries.get(key);
    return entry === undefined || hasExpired(entry) ? undefined : entry;
  };
  const write = async (): Promise<void> => {
    const kept = [...entries].filter(([key, entry]) => keptModels.test(key) && !hasExpired(entry));
    await writePrivateFile(file, `${JSON.stringify(kept)}\n`);
  };
  const keep = async (): Promise<void> => {
    const mine = writing.then(write);
    // Who asked hears of a failure; the next write is to be tried nevertheless.
    writing = mine.catch(() => undefined);
    await mine;
  };
  const put = (key: string, entry: Entry): void => {
    entries.delete(key);
    entries.set(key, entry);
    for (const [other, found] of entries) {
      if (hasExpired(found)) {
        entries.delete(other);
      }
    }
    for (const mayGo of [(other: string) => !keptModels.test(other), () => true]) {
      for (const other of entries.keys()) {
        if (entries.size > maxEntries && other !== key && mayGo(other)) {
          entries.delete(other);
        }
      }
    }
  };

  return {
    model(name) {
      const isKept = keptModels.test(`${name}:`);
      const keyOf = (id: string): string => `${name}:${id}`;
      const findBy = (field: "uid" | "userCode", value: string): StoredPayload | undefined => {
        const key = [...entries.keys()].find(
          (other) => other.startsWith(`${name}:`) && live(other)?.payload[field] === value,
        );
        return key === undefined ? undefined : entries.get(key)?.payload;
      };
      return {
        async upsert(id, payload, expiresInSeconds) {
          const expiresAtMs = expiresInSeconds === undefined ? null : Date.now() + expiresInSeconds * 1000;
          put(keyOf(id), { payload, expiresAtMs });
          if (isKept) {
            await keep();
          }
        },
        find: (id) => Promise.resolve(live(keyOf(id))?.payload),
        findByUid: (uid) => Promise.resolve(findBy("uid", uid)),
        findByUserCode: (userCode) => Promise.resolve(findBy("userCode", userCode)),
        async consume(id) {
          const entry = entries.get(keyOf(id));
          if (entry === undefined) {
            return;
          }
          const payload = { ...entry.payload, consumed: Math.floor(Date.now() / 1000) };
          entries.set(keyOf(id), { ...entry, payload });
          if (isKept) {
            await keep();
          }
        },
        async destroy(id) {
          if (entries.delete(keyOf(id)) && isKept) {
            await keep();
          }
        },
        async revokeByGrantId(grantId) {
          for (const [key, { payload }] of entries) {
            if (payload.grantId === grantId) {
              entries.delete(key);
            }
          }
          await keep();
        },
      };
    },
  };
}

function hasExpired({ expiresAtMs }: Entry): boolean {
  return expiresAtMs !== null && expiresAtMs <= Date.now();
}

function parse(text: string | null, file: string): [string, Entry][] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    if (Array.isArray(found)) {
      return found as [string, Entry][];
    }
  } catch (cause) {
    throw unusable(file, cause);
  }
  throw unusable(file);
}

function unusable(file: string, cause?: unknown): ServiceError {
  return new ServiceError(
    "NOT_CONFIGURED",
    `${file} does not hold the tokens of the development login: remove it, and log in again`,
    { cause },
  );
}
