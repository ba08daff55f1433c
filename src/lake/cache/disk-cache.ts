/**
 * Files that can be fetched again, within a bound of bytes.
 *
 * **Who holds a file keeps it.** A caller gets all its files at once or waits, in turn, until others have let go of
 * enough; so nobody waits while holding something that the other waits for. What nobody holds is removed when room is
 * needed, below the bound or on the disk, what was let go of longest ago first.
 *
 * **A name says what must be in the file**: `<key>~<CRC-32>~<size>~<bytes on disk>`, and it gets the name when that is
 * so. A process that is killed leaves temporary names, which the next removes. After a start, and after a query that
 * failed, a file is read against its name before it is used again; one that differs is fetched again. Where others hold it,
 * it stays until then: for that time it takes its room twice. Nothing is synced.
 *
 * **One fetch per file**, however many wait for it; it is given up when all of them have.
 */
import { randomBytes } from "node:crypto";
import { setMaxListeners } from "node:events";
import { mkdirSync, renameSync, rmSync, statSync, unlinkSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm, stat } from "node:fs/promises";
import path from "node:path";
import { crc32 } from "node:zlib";

import { followSignals } from "telemetry-service-client/shared/abort";
import { onAbort, SharedWork, unlessAborted } from "../../runtime/aborts.js";
import { abortReason, ServiceError } from "../../runtime/errors.js";
import { checksumOfHandle } from "../store/checksum.js";
import { Turns } from "../../runtime/turns/turns.js";
import type { CacheCounts } from "./cache-counts.js";

/** A file that is wanted. */
export interface WantedFile {
  /** Names it, as a relative path; the same key is always the same content. */
  readonly key: string;
  /** Bytes that it takes on the disk. */
  readonly bytes: number;
  /**
   * Writes the content. A file that is cut short is noticed here, by an error.
   * @returns its CRC-32
   */
  fill(handle: FileHandle, signal: AbortSignal): Promise<number>;
}

/** Files of a caller; absolute names in the order in which they were wanted. */
interface HeldCacheFiles {
  readonly files: readonly string[];
  /** @param suspect what is in the files is to be proved before their next use */
  release(suspect: boolean): void;
}

interface Content {
  readonly file: string;
  readonly size: number;
  modifiedMs: number;
}

interface Entry {
  readonly key: string;
  readonly bytes: number;
  holders: number;
  /** Holders that were given the content, by their signals; the others wait for it. */
  readonly readers: Set<AbortSignal>;
  /** Null until it was fetched. */
  content: Content | null;
  /** The content is what the name says. */
  proved: boolean;
  /** It may be wrong all the same, and is fetched again before its next use. */
  doubted: boolean;
  /** A fetch under way. */
  flight: SharedWork<void> | null;
}

interface Waiting {
  readonly wanted: readonly WantedFile[];
  readonly start: () => void;
}

const temporarySuffix = ".tmp";
const parallelFetches = 16;

/** Files below one directory, of which this process is the only owner. */
export class DiskCache {
  readonly #directory: string;
  readonly #maxBytes: number;
  readonly #counts: CacheCounts;
  readonly #entries = new Map<string, Entry>();
  /** Entries with content that nobody holds, what was let go of longest ago first. */
  readonly #idle = new Map<string, Entry>();
  readonly #waiting: Waiting[] = [];
  readonly #turns = new Turns(parallelFetches);
  /** Of all entries, those under way included. */
  #bytes = 0;
  /** Of entries that are held or under way. */
  #busyBytes = 0;
  /** Idle files that were removed so far. */
  #removals = 0;

  private constructor(directory: string, maxBytes: number, counts: CacheCounts) {
    this.#directory = directory;
    this.#maxBytes = maxBytes;
    this.#counts = counts;
  }

  /** Opens a directory with what an earlier process left, and removes what is too much. */
  static async open(directory: string, maxBytes: number, counts: CacheCounts): Promise<DiskCache> {
    const cache = new DiskCache(directory, maxBytes, counts);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await cache.#takeOver();
    cache.#makeRoom();
    return cache;
  }

  /** Bytes on the disk, and on their way there. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether a file is here, so that nothing has to be fetched for it. */
  has(key: string): boolean {
    return (this.#entries.get(key)?.content ?? null) !== null;
  }

  /**
   * Brings files, and keeps them until they are released.
   * @throws ServiceError PAYLOAD_TOO_LARGE when they exceed the cache; UNAVAILABLE when its disk is full; what `fill`
   *   throws; what `signal` was aborted with
   */
  async hold(wanted: readonly WantedFile[], signal: AbortSignal): Promise<HeldCacheFiles> {
    const distinct = [...new Map(wanted.map((file) => [file.key, file])).values()];
    const total = distinct.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total > this.#maxBytes) {
      throw new ServiceError(
        "PAYLOAD_TOO_LARGE",
        `The query reads ${total} bytes of the lake, more than the cache of this server holds (SVC_LAKE_CACHE_BYTES); narrow it by time.`,
      );
    }
    await this.#admitted(distinct, signal);
    const { controller: ended, release: unfollow } = followSignals([signal]);
    let released = false;
    const release = (suspect: boolean): void => {
      if (released) {
        return;
      }
      released = true;
      for (const { key } of distinct) {
        this.#letGo(key, ended.signal, suspect);
      }
      this.#admitMore();
    };
    // Every file listens to it.
    setMaxListeners(0, ended.signal);
    try {
      // Who wants thousands of files waits for a turn with a few of them, behind which others are next.
      const own = new Turns(parallelFetches);
      const missing = distinct.filter(({ key }) => !this.#isHit(this.#entries.get(key), ended.signal));
      await Promise.all(missing.map((file) => own.run(ended.signal, () => this.#ready(file, ended.signal))));
    } catch (error) {
      // The others are given up.
      ended.abort();
      release(false);
      throw signal.aborted ? abortReason(signal) : error;
    } finally {
      unfollow();
    }
    return { files: wanted.map(({ key }) => this.#entries.get(key)?.content?.file ?? ""), release };
  }

  /** Has files fetched again before their next use, although they are what was fetched. */
  doubt(keys: Iterable<string>): void {
    for (const key of keys) {
      const entry = this.#entries.get(key);
      if (entry !== undefined) {
        entry.proved = false;
        entry.doubted = true;
      }
    }
  }

  /** Waits until all of these may be held, then holds them. */
  async #admitted(wanted: readonly WantedFile[], signal: AbortSignal): Promise<void> {
    if (signal.aborted) {
      throw abortReason(signal);
    }
    if (this.#waiting.length === 0 && this.#admit(wanted)) {
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const waiting: Waiting = {
        wanted,
        start: () => {
          leave();
          resolve();
        },
      };
      const leave = onAbort(signal, (reason) => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(reason);
        this.#admitMore();
      });
      this.#waiting.push(waiting);
    });
  }

  #admitMore(): void {
    for (let next = this.#waiting[0]; next !== undefined && this.#admit(next.wanted); next = this.#waiting[0]) {
      this.#waiting.shift();
      next.start();
    }
  }

  #admit(wanted: readonly WantedFile[]): boolean {
    let more = 0;
    for (const { key, bytes } of wanted) {
      const entry = this.#entries.get(key);
      more += entry === undefined || !isBusy(entry) ? (entry?.bytes ?? bytes) : 0;
    }
    if (this.#busyBytes + more > this.#maxBytes) {
      return false;
    }
    let fresh = 0;
    for (const { key, bytes } of wanted) {
      let entry = this.#entries.get(key);
      if (entry === undefined) {
        entry = {
          key,
          bytes,
          holders: 0,
          readers: new Set(),
          content: null,
          proved: false,
          doubted: false,
          flight: null,
        };
        this.#entries.set(key, entry);
        fresh += bytes;
      }
      if (!isBusy(entry)) {
        this.#idle.delete(key);
        this.#busyBytes += entry.bytes;
      }
      entry.holders++;
    }
    this.#bytes += fresh;
    this.#makeRoom();
    return true;
  }

  #letGo(key: string, reader: AbortSignal, suspect: boolean): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      return;
    }
    entry.holders--;
    entry.readers.delete(reader);
    entry.proved &&= !suspect;
    this.#settle(entry);
  }

  /** What nobody holds any more and nobody fetches is idle, or nothing. */
  #settle(entry: Entry): void {
    if (isBusy(entry)) {
      return;
    }
    this.#busyBytes -= entry.bytes;
    if (entry.content === null) {
      this.#entries.delete(entry.key);
      this.#bytes -= entry.bytes;
    } else {
      this.#idle.set(entry.key, entry);
    }
  }

  /** Removes idle files until the others fit. */
  #makeRoom(): void {
    this.#removeIdle(this.#bytes - this.#maxBytes);
  }

  /** Removes idle files of so many bytes, or all of them. @returns whether there was one */
  #removeIdle(bytes: number): boolean {
    let left = bytes;
    for (const [key, entry] of this.#idle) {
      if (left <= 0) {
        break;
      }
      left -= entry.bytes;
      this.#removals++;
      this.#idle.delete(key);
      this.#entries.delete(key);
      this.#bytes -= entry.bytes;
      this.#counts.evictedBytes.inc(entry.bytes);
      if (entry.content !== null) {
        removeIfPossible(entry.content.file);
      }
    }
    return left < bytes;
  }

  /** Resolves when the entry, which the caller holds, has its content. */
  async #ready(wanted: WantedFile, signal: AbortSignal): Promise<void> {
    const entry = this.#entries.get(wanted.key);
    if (entry === undefined) {
      throw new TypeError("a file that is held has no entry");
    }
    for (;;) {
      if (this.#isHit(entry, signal)) {
        return;
      }
      entry.flight ??= this.#startFlight(entry, wanted);
      const { flight } = entry;
      if (flight.abandoned) {
        // Others had asked for it, and have given it up.
        await unlessAborted(
          flight.done.catch(() => undefined),
          signal,
        );
        continue;
      }
      await flight.join(signal);
      // Who has given up meanwhile has let go of it.
      if (!signal.aborted) {
        entry.readers.add(signal);
      }
      return;
    }
  }

  #isHit(entry: Entry | undefined, reader: AbortSignal): boolean {
    if (entry?.flight !== null || !this.#isIntact(entry)) {
      return false;
    }
    this.#counts.hits.inc();
    entry.readers.add(reader);
    return true;
  }

  /** Whether the file is there as it was left. */
  #isIntact({ content, proved }: Entry): boolean {
    if (content === null || !proved) {
      return false;
    }
    try {
      const { size, mtimeMs } = statSync(content.file);
      return size === content.size && mtimeMs === content.modifiedMs;
    } catch {
      // Gone, or out of reach: it is fetched again.
      return false;
    }
  }

  #startFlight(entry: Entry, wanted: WantedFile): SharedWork<void> {
    return new SharedWork((signal) =>
      this.#turns
        .run(signal, () => this.#prove(entry, wanted, signal))
        .finally(() => {
          entry.flight = null;
          if (entry.holders === 0) {
            // All who waited have gone.
            this.#settle(entry);
            this.#admitMore();
          }
        }),
    );
  }

  /** Reads what is there against its name, or fetches it. */
  async #prove(entry: Entry, wanted: WantedFile, signal: AbortSignal): Promise<void> {
    if (entry.content !== null) {
      if (!entry.doubted && (await isWhatItsNameSays(entry.content, signal))) {
        entry.proved = true;
        this.#counts.hits.inc();
        return;
      }
      if (entry.readers.size === 0) {
        removeIfPossible(entry.content.file);
        entry.content = null;
      }
    }
    this.#counts.misses.inc();
    const startedMs = performance.now();
    const { content: old, doubted } = entry;
    try {
      entry.doubted = false;
      // The same bytes take the name of those that others read.
      entry.content = await this.#fetchInRoom(wanted, signal);
      entry.proved = !entry.doubted;
      if (old !== null && old.file !== entry.content.file) {
        // Other bytes were wrong: it is better that who reads them fails, and that no later process finds them.
        removeIfPossible(old.file);
      }
    } catch (error) {
      entry.doubted ||= doubted;
      throw asCacheError(error);
    } finally {
      this.#counts.fetchSeconds.observe((performance.now() - startedMs) / 1000);
    }
  }

  /** Others may have filled the disk before the bound was reached: what nobody holds makes room then, too. */
  async #fetchInRoom(wanted: WantedFile, signal: AbortSignal): Promise<Content> {
    for (let maySharePlace = true; ;) {
      const before = this.#removals;
      try {
        return await this.#fetch(wanted, signal);
      } catch (error) {
        if (isDiskFull(error) && this.#removeIdle(wanted.bytes)) {
          continue;
        }
        // Another fetch may have made room meanwhile, for both.
        if (!isDiskFull(error) || !maySharePlace || this.#removals === before) {
          throw error;
        }
        maySharePlace = false;
      }
    }
  }

  async #fetch(wanted: WantedFile, signal: AbortSignal): Promise<Content> {
    const { key, bytes } = wanted;
    const place = path.join(this.#directory, key);
    const directory = path.dirname(place);
    const temporary = path.join(directory, `.${randomBytes(8).toString("hex")}${temporarySuffix}`);
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const handle = await open(temporary, "wx+", 0o600);
    try {
      const crc = await wanted.fill(handle, signal);
      const { size, mtimeMs } = await handle.stat();
      const file = `${place}~${crc.toString(16).padStart(8, "0")}~${size}~${bytes}`;
      renameSync(temporary, file);
      return { file, size, modifiedMs: mtimeMs };
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    } finally {
      await handle.close();
    }
  }

  /** Files of an earlier process, those read longest ago first. */
  async #takeOver(): Promise<void> {
    const found: { readonly entry: Entry; readonly readMs: number }[] = [];
    const names = await readdir(this.#directory, { recursive: true, withFileTypes: true });
    for (const name of names) {
      const file = path.join(name.parentPath, name.name);
      if (!name.isFile()) {
        if (saidBy(file) !== null) {
          // It would be in the way of the file of that name.
          await rm(file, { force: true, recursive: true });
        }
        continue;
      }
      const { size, mtimeMs, atimeMs } = await stat(file);
      const said = saidBy(file);
      if (said?.size !== size) {
        await rm(file, { force: true });
        continue;
      }
      const key = path.relative(this.#directory, said.place);
      const content = { file, size, modifiedMs: mtimeMs };
      const entry = {
        key,
        bytes: said.bytes,
        holders: 0,
        readers: new Set<AbortSignal>(),
        content,
        proved: false,
        doubted: false,
        flight: null,
      };
      found.push({ entry, readMs: atimeMs });
    }
    // A process may have been killed between fetching other bytes and removing those that were wrong.
    const newest = new Map<string, Entry>();
    for (const { entry } of found) {
      const other = newest.get(entry.key)?.content?.modifiedMs ?? Number.NEGATIVE_INFINITY;
      if ((entry.content?.modifiedMs ?? 0) > other) {
        newest.set(entry.key, entry);
      }
    }
    for (const { entry } of found.toSorted((a, b) => a.readMs - b.readMs)) {
      if (newest.get(entry.key) !== entry) {
        unlinkSync(entry.content?.file ?? "");
        continue;
      }
      this.#entries.set(entry.key, entry);
      this.#idle.set(entry.key, entry);
      this.#bytes += entry.bytes;
    }
  }
}

function isBusy({ holders, flight }: Entry): boolean {
  return holders > 0 || flight !== null;
}

/** What the name of a file says; null when it is no name of ours. */
function saidBy(
  file: string,
): { readonly place: string; readonly crc: number; readonly size: number; readonly bytes: number } | null {
  const match = /^(?<place>.+)~(?<crc>[0-9a-f]{8})~(?<size>[0-9]+)~(?<bytes>[0-9]+)$/u.exec(file)?.groups;
  return match === undefined
    ? null
    : {
        place: match["place"] ?? "",
        crc: Number.parseInt(match["crc"] ?? "", 16),
        size: Number(match["size"]),
        bytes: Number(match["bytes"]),
      };
}

/** Whether the bytes that were read of a file are what its name says. */
export function isAsNamed(file: string, bytes: Uint8Array): boolean {
  const said = saidBy(file);
  return said?.size === bytes.length && said.crc === crc32(bytes);
}

async function isWhatItsNameSays(content: Content, signal: AbortSignal): Promise<boolean> {
  let handle: FileHandle;
  try {
    handle = await open(content.file, "r");
  } catch {
    // Gone, or not readable: it is fetched again.
    return false;
  }
  try {
    const { size, mtimeMs } = await handle.stat();
    const said = saidBy(content.file);
    if (size !== said?.size || (await checksumOfHandle(handle, signal)) !== said.crc) {
      return false;
    }
    content.modifiedMs = mtimeMs;
    return true;
  } catch (error) {
    if (signal.aborted) {
      throw error;
    }
    // The disk does not give it back: it is fetched again.
    return false;
  } finally {
    await handle.close();
  }
}

/** What cannot be removed fails nobody who wants another file. Where it fills the disk, or is in the way, a fetch says so. */
function removeIfPossible(file: string): void {
  try {
    rmSync(file, { force: true, recursive: true });
  } catch {
    // See above.
  }
}

/** Codes of a file system that takes no file. */
const unwritable: ReadonlySet<string> = new Set([
  "EACCES",
  "EIO",
  "EISDIR",
  "ELOOP",
  "ENOENT",
  "ENOTDIR",
  "EPERM",
  "EROFS",
]);

function asCacheError(error: unknown): unknown {
  if (isDiskFull(error) || hasCode(error, unwritable)) {
    return new ServiceError(
      "UNAVAILABLE",
      "the cache of the lake cannot be written: its disk is full or broken, somebody removes its files, or nobody may write (SVC_LAKE_CACHE_DIR)",
      { cause: error },
    );
  }
  return error;
}

/** Whether a file system has no room left, or no more for this user. */
export function isDiskFull(error: unknown): boolean {
  return hasCode(error, full);
}

const full: ReadonlySet<string> = new Set(["EDQUOT", "ENOSPC"]);

function hasCode(error: unknown, codes: ReadonlySet<string>): boolean {
  return error instanceof Error && "code" in error && codes.has(String(error.code));
}
