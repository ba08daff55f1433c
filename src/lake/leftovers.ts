/**
 * What a process leaves when it is killed between writing and removing or renaming it: objects of probes and of looks at
 * the store's clock, unfinished marks of databases, and unfinished maps. It lies beside the tables and nothing names it.
 */
import { readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";

import { identityDirectory } from "./retention/lake-identity.js";
import { ownerDirectory } from "./retention/lake-owner.js";
import { mapDirectory, type ObjectStore, probeDirectory, type StoredObject } from "./store/object-store.js";
import { Removals, type SweepResult } from "./sweep.js";

const leftAfterMs = 3_600_000;

/** Removes those that are older than an hour. */
export async function sweepLeftovers(store: ObjectStore, nowMs: number): Promise<SweepResult> {
  const removals = new Removals(store);
  for (const { path, bytes } of await findLeftovers(store, nowMs)) {
    if (!removals.gaveUp) {
      await removals.remove(path, bytes);
    }
  }
  return removals.result();
}

/** Those that are older than an hour: whoever wrote them has removed them, or never will. */
export async function findLeftovers(store: ObjectStore, nowMs: number): Promise<readonly StoredObject[]> {
  const found: StoredObject[] = [...(await probeFiles(store))];
  for await (const object of store.list(probeDirectory)) {
    found.push(object);
  }
  for (const directory of [identityDirectory, ownerDirectory, mapDirectory]) {
    for await (const object of store.list(directory)) {
      if (object.path.startsWith(`${directory}/.`)) {
        found.push(object);
      }
    }
  }
  return found.filter(({ modifiedMs }) => modifiedMs <= nowMs - leftAfterMs);
}

/** What probes of a directory leave at its top, where a list would go through everything. */
async function probeFiles(store: ObjectStore): Promise<readonly StoredObject[]> {
  const inRoot = store.localPath(probeDirectory);
  if (inRoot === null) {
    return [];
  }
  const root = dirname(inRoot);
  const names = (await readdir(root)).filter((name) => /^\.probe\.[0-9a-f]+\.tmp$/u.test(name));
  const files = await Promise.all(
    names.map(async (path) => {
      // Removed meanwhile, as most are.
      const file = await stat(join(root, path)).catch(() => null);
      return file?.isFile() === true ? [{ path, bytes: file.size, modifiedMs: file.mtimeMs }] : [];
    }),
  );
  return files.flat();
}
