/** Objects as files that the merging engine opens: where the store has them as files, or brought for a while. */
import { mkdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";

import { ServiceError } from "../../runtime/errors.js";
import { readFooter } from "../cache/row-group-files.js";
import { magic } from "../parquet/row-groups.js";
import { BadObjects, isOutage, refusalCodes } from "../bad-objects.js";
import { checksumOfFile } from "../store/checksum.js";
import { DamagedObject, type ObjectStore, type RemoteObjects } from "../store/object-store.js";
import type { MergeEngine } from "./merge-engine.js";
import type { MergeContext } from "./merge.js";
import type { MergeSource } from "./merge-plan.js";
import { everyValueSql } from "./merge-sql.js";

/** What has to be known of an object to bring it. */
type BroughtSource = Pick<MergeSource, "path" | "fileBytes" | "rowCount">;

/** Sources with their files, until they are let go. */
interface LocalObjects<S extends BroughtSource> {
  readonly files: readonly (S & { readonly file: string })[];
  /** Removes what was brought; the store's own files stay. */
  release(): void;
}

type Bringing = Pick<MergeContext, "store" | "root" | "cancelled">;

/** Objects that are fetched at a time. */
const parallelReads = 8;

/**
 * The objects of `sources` as files below `root`: the directory of a store of files, else one of this process's own
 * that they are brought to.
 * @param what `footers`: files that are brought hold the footer and no row
 * @throws BadObjects; ServiceError UNAVAILABLE when the store cannot be read, CANCELLED; then nothing remains
 */
export async function bringObjects<S extends BroughtSource>(
  { store, root, cancelled }: Bringing,
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
  const bad: { readonly path: string; readonly cause: unknown }[] = [];
  const bringMore = async (): Promise<void> => {
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      if (cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      const { path } = next;
      await bring(remote, next, what, controller.signal).catch((error: unknown) => {
        if (isOutage(error)) {
          throw error;
        }
        bad.push({ path, cause: error });
      });
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
  if (bad.length > 0) {
    release();
    const paths = bad.map(({ path }) => path);
    throw new BadObjects(paths, { cause: bad[0]?.cause });
  }
  return { files, release };
}

/**
 * Does `work` over objects as files.
 * @throws BadObjects when it failed and some of them cannot be read, or hold other rows than the catalogue says; what
 *   `work` and {@link bringObjects} throw
 */
export async function withObjects<S extends BroughtSource, T>(
  context: Bringing & Pick<MergeContext, "share">,
  engine: MergeEngine,
  sources: readonly S[],
  work: (files: LocalObjects<S>["files"]) => Promise<T>,
): Promise<T> {
  const local = await bringObjects(context, sources);
  try {
    return await work(local.files);
  } catch (error) {
    if (context.cancelled() || error instanceof BadObjects || (isOutage(error) && !isOfSource(error, local.files))) {
      throw error;
    }
    const bad = await badOnes(context, engine, local.files);
    throw bad.length === 0 ? error : new BadObjects(bad, { cause: error });
  } finally {
    local.release();
  }
}

/**
 * Compares objects with their checksums. What is written of others than were published would have a checksum of its own,
 * by which no check could tell any more. Two per cent of what a merge takes; what was read is at hand for the engine.
 * @throws BadObjects; what the file system does
 */
export async function assertUnchanged(
  { share, clock, cancelled }: Pick<MergeContext, "share" | "clock" | "cancelled">,
  files: readonly (Pick<MergeSource, "path" | "checksum"> & { readonly file: string })[],
): Promise<void> {
  const changed: string[] = [];
  for (const { path, checksum, file } of files) {
    if (cancelled()) {
      throw new ServiceError("CANCELLED");
    }
    const startedMs = clock.monotonicMs();
    if (checksum !== null && (await checksumOfFile(file)) !== checksum) {
      changed.push(path);
    }
    share?.spend((clock.monotonicMs() - startedMs) / 1000);
  }
  if (changed.length > 0) {
    throw new BadObjects(changed, { cause: new DamagedObject("an object holds other bytes than were written") });
  }
}

/**
 * Whether the system may say that one of these is gone, or cannot be read; as against the machine's lack of something.
 * Only what opens a file names it: what reads on says just that.
 */
function isOfSource(error: unknown, files: LocalObjects<BroughtSource>["files"]): boolean {
  const { code = "", syscall, path } = error as NodeJS.ErrnoException;
  return refusalCodes.has(code) && (syscall === "read" || files.some(({ file }) => file === path));
}

/** The paths of those that cannot be read. What went wrong seldom says of which, so each is read, to its last value. */
async function badOnes(
  { share, cancelled }: Pick<MergeContext, "share" | "cancelled">,
  engine: MergeEngine,
  files: LocalObjects<BroughtSource>["files"],
): Promise<string[]> {
  const bad: string[] = [];
  for (const file of files) {
    await share?.rest(cancelled);
    try {
      const [row] = await engine.rows(everyValueSql([file]));
      if (Number(row?.[1] ?? 0) !== file.rowCount) {
        bad.push(file.path);
      }
    } catch (error) {
      if (isOutage(error)) {
        throw error;
      }
      bad.push(file.path);
    }
  }
  return bad;
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
    await remote.read(path, null, (chunk) => handle.writeFile(chunk), signal, fileBytes);
  } finally {
    await handle.close();
  }
}
