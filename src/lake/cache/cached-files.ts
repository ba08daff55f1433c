/**
 * Objects behind a network as files of this machine, through a cache on its disk. Small ones are fetched whole. Of a
 * large one that holds more time than is wanted the footer comes first, then the row groups with wanted times. What is
 * fetched whole has the checksum that the catalogue says, if an object cache gave it.
 *
 * Files lie below `<directory>/objects` as objects lie in the store, so that the directory of an audience in a table
 * holds what is of that audience and nothing else.
 */
import { mkdir, readFile } from "node:fs/promises";
import path from "node:path";

import { LRUMap } from "../../runtime/collections/lru-map.js";
import { acquireDirectoryLock, directorySecret } from "../../runtime/directory-lock.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import type { ParsedFooter } from "../parquet/row-groups.js";
import { checksumOfHandle } from "../store/checksum.js";
import { type ByteRange, DamagedObject, type OnBytes, type RemoteObjects } from "../store/object-store.js";
import { type CacheCounts, createCacheCounts } from "./cache-counts.js";
import { defaultCacheBytes } from "./default-cache-bytes.js";
import { DiskCache, isAsNamed, type WantedFile } from "./disk-cache.js";
import type { HeldFiles, LakeFiles, NeededObject } from "./lake-files.js";
import {
  footerFile,
  groupsWithin,
  parseFooterFile,
  readFooter,
  type ReadPart,
  rowGroupFile,
  writeAt,
} from "./row-group-files.js";

/** What the cache is made of. */
interface CachedFilesOptions {
  readonly remote: RemoteObjects;
  /** The store itself, where `remote` reads through an object cache: asked when what came may be wrong. */
  readonly origin?: RemoteObjects;
  /** Absolute; made when missing. One process at a time uses it. */
  readonly directory: string;
  /** Null: 10 GiB, or half of what the disk has free. */
  readonly maxBytes: number | null;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** A cache of the lake; stopping it leaves its files for the next start. */
export interface CachedFiles extends LakeFiles, Component {}

/** Smaller objects are fetched whole. */
const largeBytes = 2 << 20;
/** Footers that are kept taken apart. */
const maxFooters = 4000;
/** Objects that are remembered to be read from the origin. */
const maxDoubted = 10_000;

/**
 * Opens the cache.
 * @throws ServiceError CONFLICT when another process uses the directory; UNAVAILABLE when it cannot be used
 */
export async function openCachedFiles(o: CachedFilesOptions): Promise<CachedFiles> {
  const { directory, remote, logger, metrics } = o;
  const objects = path.join(directory, "objects");
  const counts = createCacheCounts(metrics);
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const lock = await acquireDirectoryLock({
      directory,
      secret: await directorySecret(directory),
      what: "cache of the lake in",
      remedy: "set SVC_LAKE_CACHE_DIR to a directory of its own for this one",
    });
    try {
      const maxBytes = o.maxBytes ?? (await defaultCacheBytes(directory));
      const cache = await DiskCache.open(objects, maxBytes, counts);
      logger.info({ directory, maxBytes, bytes: cache.bytes }, "objects that queries read are kept on this disk");
      const showBytes = metrics.onCollect(() => {
        counts.bytes.set(cache.bytes);
      });
      const files = new RemoteFiles(objects, cache, remote, o.origin ?? null, counts.mismatches, (bytes) => {
        counts.fetchedBytes.inc(bytes);
      });
      return {
        name: "cache of the lake",
        directory: (relative) => files.directory(relative),
        hold: (needed, signal) => files.hold(needed, signal),
        stop: async () => {
          showBytes();
          await lock.release();
        },
      };
    } catch (error) {
      await lock.release();
      throw error;
    }
  } catch (error) {
    throw error instanceof ServiceError
      ? error
      : new ServiceError("UNAVAILABLE", "the cache of the lake cannot be used (SVC_LAKE_CACHE_DIR)", { cause: error });
  }
}

class RemoteFiles implements LakeFiles {
  readonly #objects: string;
  readonly #cache: DiskCache;
  readonly #remote: RemoteObjects;
  readonly #origin: RemoteObjects | null;
  /** Paths of objects that a failed query has read, which are read from the origin from then on. */
  readonly #doubted = new LRUMap<string, true>(maxDoubted);
  readonly #mismatches: CacheCounts["mismatches"];
  readonly #onFetched: (bytes: number) => void;
  /** Row groups by path, what was used longest ago first. */
  readonly #footers = new Map<string, ParsedFooter["groups"]>();

  constructor(
    objects: string,
    cache: DiskCache,
    remote: RemoteObjects,
    origin: RemoteObjects | null,
    mismatches: CacheCounts["mismatches"],
    onFetched: (bytes: number) => void,
  ) {
    this.#objects = objects;
    this.#cache = cache;
    this.#remote = remote;
    this.#origin = origin;
    this.#mismatches = mismatches;
    this.#onFetched = onFetched;
  }

  directory(relative: string): string {
    return path.join(this.#objects, relative);
  }

  async hold(objects: readonly NeededObject[], signal: AbortSignal): Promise<HeldFiles> {
    const partial = objects.filter((object) => this.#isPartial(object));
    // What a file is made from is at hand before any of them is held: nobody waits for room while holding some.
    const footers = await this.#load(
      partial.filter(({ path: name }) => !this.#recall(name)),
      signal,
    );
    const wanted: { readonly object: NeededObject; readonly file: WantedFile }[] = [];
    const toMake: NeededObject[] = [];
    const parts = new Set(partial);
    for (const object of objects) {
      const groups = parts.has(object) ? this.#footers.get(object.path) : undefined;
      const kept = groups === undefined ? [] : groupsWithin({ groups }, object.wanted);
      if (groups !== undefined && kept.length === 0) {
        continue;
      }
      const read = this.#reader(object);
      // A file that was here may have been removed for room meanwhile, or found damaged.
      const footer = async (ended: AbortSignal): Promise<ParsedFooter> =>
        parseFooterFile(footers.get(object.path) ?? (await this.#readFooter(object, ended)));
      const some = groups === undefined ? null : rowGroupFile(object, groups, kept, footer, read);
      if (some !== null && !this.#cache.has(some.key) && !footers.has(object.path)) {
        toMake.push(object);
      }
      wanted.push({ object, file: some ?? this.#whole(object) });
    }
    for (const [name, bytes] of await this.#load(toMake, signal)) {
      footers.set(name, bytes);
    }
    const held = await this.#cache.hold(
      wanted.map(({ file }) => file),
      signal,
    );
    const names = new Map(wanted.map(({ object }, i) => [object, held.files[i] ?? null]));
    return {
      fileOf: (object) => names.get(object) ?? null,
      release: (suspect) => {
        if (suspect) {
          this.#doubt(wanted);
        }
        held.release(suspect);
      },
    };
  }

  /**
   * An object cache may have given other bytes than the store has, of which nothing here can tell: what it was asked for
   * comes from the store. Once: a query that fails again does so over what the store has.
   */
  #doubt(wanted: readonly { readonly object: NeededObject; readonly file: WantedFile }[]): void {
    if (this.#origin === null) {
      return;
    }
    for (const { object, file } of wanted) {
      if (this.#doubted.get(object.path) === undefined) {
        this.#doubted.set(object.path, true);
        this.#footers.delete(object.path);
        this.#cache.doubt([file.key, this.#footer(object).key]);
      }
    }
  }

  /** Whether it is large, not here yet, and holds more time than is wanted. */
  #isPartial({ path: name, fileBytes, minTimeNs, maxTimeNs, wanted }: NeededObject): boolean {
    const within =
      minTimeNs !== null &&
      maxTimeNs !== null &&
      (wanted.minTimeNs === undefined || wanted.minTimeNs <= minTimeNs) &&
      (wanted.maxTimeNs === undefined || wanted.maxTimeNs >= maxTimeNs);
    const all = wanted.minTimeNs === undefined && wanted.maxTimeNs === undefined;
    return fileBytes >= largeBytes && !within && !all && !this.#cache.has(name);
  }

  #reader(object: NeededObject): ReadPart {
    return (part, onBytes, signal) => this.#read(object, part, onBytes, signal);
  }

  #read(
    { path: name, fileBytes }: NeededObject,
    range: ByteRange | null,
    onBytes: OnBytes,
    signal: AbortSignal,
  ): Promise<void> {
    const remote = this.#doubted.get(name) === true ? (this.#origin ?? this.#remote) : this.#remote;
    return remote
      .read(
        name,
        range,
        (bytes, at) => {
          this.#onFetched(bytes.length);
          return onBytes(bytes, at);
        },
        signal,
        fileBytes,
      )
      .catch((error: unknown) => {
        // Published objects are there, unless they were replaced more than an hour ago, or somebody has removed them.
        throw error instanceof ServiceError && error.code === "NOT_FOUND"
          ? new ServiceError("UNAVAILABLE", "an object that the query reads is gone; run it again", { cause: error })
          : error;
      });
  }

  #footer(object: NeededObject): WantedFile {
    return footerFile(object, (signal) => this.#readFooter(object, signal));
  }

  /** A footer that an object cache gave has the rows that the catalogue says, or any, or it is read from the origin. */
  async #readFooter(object: NeededObject, signal: AbortSignal): Promise<Buffer> {
    const read = this.#reader(object);
    if (this.#origin === null || this.#doubted.get(object.path) === true) {
      return readFooter(object, read, signal);
    }
    try {
      const bytes = await readFooter(object, read, signal);
      const { rows } = parseFooterFile(bytes);
      if (object.rowCount === null ? rows > 0 : rows === object.rowCount) {
        return bytes;
      }
    } catch (error) {
      if (!(error instanceof RangeError)) {
        throw error;
      }
    }
    this.#mismatches.inc();
    this.#doubted.set(object.path, true);
    return readFooter(object, read, signal);
  }

  #whole(object: NeededObject): WantedFile {
    const { path: name, fileBytes, checksum } = object;
    const fill: WantedFile["fill"] = async (handle, signal) => {
      const write = async (bytes: Uint8Array, at: number): Promise<void> => {
        await writeAt(handle, bytes, at);
      };
      await this.#read(object, null, write, signal);
      const { size } = await handle.stat();
      if (size !== fileBytes) {
        throw new DamagedObject("an object of the object store has another size than when it was stored");
      }
      const found = await checksumOfHandle(handle, signal);
      if (checksum === null || found === checksum || this.#origin === null || this.#doubted.get(name) === true) {
        return found;
      }
      // The object cache gave other bytes.
      this.#mismatches.inc();
      this.#doubted.set(name, true);
      return fill(handle, signal);
    };
    return { key: name, bytes: fileBytes, fill };
  }

  /** Footers of objects as bytes, by path; their row groups are remembered where they tell enough. */
  async #load(objects: readonly NeededObject[], signal: AbortSignal): Promise<Map<string, Buffer>> {
    const distinct = [...new Map(objects.map((object) => [object.path, object])).values()];
    const loaded = new Map<string, Buffer>();
    if (distinct.length === 0) {
      return loaded;
    }
    const held = await this.#cache.hold(
      distinct.map((object) => this.#footer(object)),
      signal,
    );
    let suspect = false;
    try {
      for (const [i, { path: name }] of distinct.entries()) {
        const file = held.files[i] ?? "";
        const bytes = await readFile(file).catch(() => null);
        if (bytes === null || !isAsNamed(file, bytes)) {
          // The disk does not give back what it was given: a query would miss row groups. It is fetched again the next time.
          suspect = true;
          continue;
        }
        loaded.set(name, bytes);
        try {
          this.#remember(name, parseFooterFile(bytes).groups);
        } catch (error) {
          // Another writer's, perhaps: the object is fetched whole.
          if (!(error instanceof RangeError)) {
            throw error;
          }
        }
      }
    } finally {
      held.release(suspect);
    }
    return loaded;
  }

  #recall(name: string): boolean {
    const groups = this.#footers.get(name);
    if (groups === undefined) {
      return false;
    }
    this.#remember(name, groups);
    return true;
  }

  #remember(name: string, groups: ParsedFooter["groups"]): void {
    this.#footers.delete(name);
    this.#footers.set(name, groups);
    for (const oldest of this.#footers.keys()) {
      if (this.#footers.size <= maxFooters) {
        break;
      }
      this.#footers.delete(oldest);
    }
  }
}
