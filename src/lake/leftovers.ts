/**
 * Small objects that a process leaves when it is killed between writing and removing them: of probes, of looks at the
 * store's clock, and unfinished marks of databases. They lie beside the tables and nothing names them.
 */
import { readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";

import { identityDirectory } from "./retention/lake-identity.js";
import { ownerDirectory } from "./retention/lake-owner.js";
import type { ObjectStore, StoredObject } from "./store/object-store.js";
import { Removals, type SweepResult } from "./sweep.js";

/** Where probes of a bucket write. */
const probes = ".probe";
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
  for await (const object of store.list(probes)) {
    found.push(object);
  }
  for (const directory of [identityDirectory, ownerDirectory]) {
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
  const inRoot = store.localPath(probes);
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
