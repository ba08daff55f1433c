/** Objects as files that the merging engine opens: where the store has them as files, or brought for a while. */
import { mkdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";

import { ServiceError } from "../../runtime/errors.js";
import { readFooter } from "../cache/row-group-files.js";
import { magic } from "../parquet/row-groups.js";
import { DamagedObject, type ObjectStore, type RemoteObjects } from "../store/object-store.js";
import type { MergeSource } from "./merge-plan.js";

/** What has to be known of an object to bring it. */
export type BroughtSource = Pick<MergeSource, "path" | "fileBytes" | "rowCount">;

/** Sources with their files, until they are let go. */
export interface LocalObjects<S extends BroughtSource> {
  readonly files: readonly (S & { readonly file: string })[];
  /** Removes what was brought; the store's own files stay. */
  release(): void;
}

/** Objects that are fetched at a time. */
const parallelReads = 8;

/**
 * The objects of `sources` as files below `root`: the directory of a store of files, else one of this process's own
 * that they are brought to.
 * @param what `footers`: files that are brought hold the footer and no row
 * @throws ServiceError UNAVAILABLE when the store cannot be read, DamagedObject, NOT_FOUND, CANCELLED; then nothing
 *   remains
 */
export async function bringObjects<S extends BroughtSource>(
  { store, root, cancelled }: { readonly store: ObjectStore; readonly root: string; readonly cancelled: () => boolean },
  sources: readonly S[],
  what: "objects" | "footers" = "objects",
): Promise<LocalObjects<S>> {
  const { remote } = store;
  if (remote === null) {
    const files = sources.map((source) => ({ ...source, file: localFile(store, root, source.path) }));
    return { files, release: () => undefined };
  }
  const files = sources.map((source) => ({ ...source, file: join(root, source.path) }));
  const release = (): void => {
    for (const { file } of files) {
      rmSync(file, { force: true });
    }
  };
  const controller = new AbortController();
  const pending = [...files];
  const bringMore = async (): Promise<void> => {
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      if (cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      await bring(remote, next, what, controller.signal);
    }
  };
  const runs = await Promise.allSettled(
    Array.from({ length: Math.min(parallelReads, files.length) }, () =>
      bringMore().catch((error: unknown) => {
        controller.abort();
        throw error;
      }),
    ),
  );
  const failures = runs.flatMap((run) => (run.status === "rejected" ? [run.reason as unknown] : []));
  if (failures.length > 0) {
    release();
    // The others were given up because of the first.
    throw failures.find((error) => !(error instanceof ServiceError && error.code === "CANCELLED")) ?? failures[0];
  }
  return { files, release };
}

function localFile(store: ObjectStore, root: string, path: string): string {
  const file = store.localPath(path);
  if (file?.startsWith(`${root}/`) !== true) {
    throw new ServiceError("INTERNAL", `an object lies outside its directory: ${path}`);
  }
  return file;
}

async function bring(
  remote: RemoteObjects,
  source: BroughtSource & { readonly file: string },
  what: "objects" | "footers",
  signal: AbortSignal,
): Promise<void> {
  const { path, file, fileBytes } = source;
  mkdirSync(dirname(file), { recursive: true });
  const handle = await open(file, "w+");
  try {
    if (what === "footers") {
      const read = remote.read.bind(remote, path);
      // Readers want a file to begin like one, too.
      await handle.writeFile(Buffer.concat([magic, await readFooter(source, read, signal)]));
      return;
    }
    let bytes = 0;
    const write = async (chunk: Uint8Array, at: number): Promise<void> => {
      await handle.writeFile(chunk);
      bytes = at + chunk.length;
    };
    await remote.read(path, null, write, signal);
    if (bytes !== fileBytes) {
      throw new DamagedObject("an object of the object store has another size than when it was stored");
    }
  } finally {
    await handle.close();
  }
}
