/**
 * Blocks as files of one directory, within a bound of bytes; what was read longest ago goes first.
 *
 * **A name says what must be in the file**: `<object id>.<index>.<bytes of the object>.<CRC-32>`, and a file gets it when
 * that was written. Every read is held against it, and what differs is removed. So nothing has to be synced: whatever a
 * crash leaves is either as it was written or noticed. Temporary names of a process that was killed are removed by the
 * next one.
 *
 * Writing happens behind the back of readers and never fails them: a disk that is too slow or broken leaves blocks out.
 * Where others have filled it, the oldest blocks make room below the bound, too.
 */
import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import path from "node:path";
import { crc32 } from "node:zlib";

import { isDiskFull } from "../lake/cache/disk-cache.js";
import type { Logger } from "../runtime/log/log.js";
import { createRareWarning, type RareWarning } from "../runtime/log/rare-warnings.js";
import { type Block, blockName, type FillPoint, lengthOfBlock } from "./blocks.js";
import type { ObjectCacheCounts } from "./object-cache-counts.js";

/** Options of {@link DiskBlocks.open}. */
interface DiskBlocksOptions {
  /** Made when missing; this process alone uses it. */
  readonly directory: string;
  readonly maxBytes: number;
  readonly counts: ObjectCacheCounts;
  readonly logger: Logger;
  /** Told of a block that was removed for others, or could not be written. */
  readonly onEvicted: (name: string) => void;
  readonly at: (point: FillPoint) => Promise<void> | void;
}

/** A block that an earlier process left. */
interface FoundBlock extends Block {
  /** How long ago its object was known to exist, in milliseconds. */
  readonly ageMs: number;
}

interface Stored {
  readonly file: string;
  readonly length: number;
  readonly crc: number;
}

interface Pending {
  readonly block: Block;
  readonly bytes: Uint8Array;
}

const temporarySuffix = ".tmp";
/** A file takes whole pages of the disk. */
const pageBytes = 4096;
const parallelWrites = 2;
/** What may wait to be written; beyond, blocks are left out. */
const maxPendingBytes = 32 << 20;
/** After a failed write none is tried for so long. */
const pauseMs = 10_000;
/** A block whose time lies further ahead was written before the clock was set back: nobody knows how old it is. */
const clockSlackMs = 60_000;

/** See the head of the file. */
export class DiskBlocks {
  readonly #o: DiskBlocksOptions;
  readonly #warn: RareWarning;
  /** In the order of their last use. */
  readonly #blocks = new Map<string, Stored>();
  /** Blocks that wait to be written, or are being written. */
  readonly #pending = new Map<string, Pending>();
  readonly #queue: Pending[] = [];
  readonly #writers = new Set<Promise<void>>();
  #bytes = 0;
  #pendingBytes = 0;
  #pausedUntilMs = 0;
  #stopped = false;

  private constructor(o: DiskBlocksOptions) {
    this.#o = o;
    this.#warn = createRareWarning(o.logger);
  }

  /**
   * Opens a directory with what is left of an earlier process.
   * @throws what the file system does
   */
  static async open(
    o: DiskBlocksOptions,
  ): Promise<{ readonly disk: DiskBlocks; readonly found: readonly FoundBlock[] }> {
    await mkdir(o.directory, { recursive: true, mode: 0o700 });
    const disk = new DiskBlocks(o);
    const found = await disk.#takeOver();
    disk.#makeRoom();
    return { disk, found: found.filter((block) => disk.has(blockName(block))) };
  }

  /** Bytes on the disk. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether blocks get onto the disk at present: it is not full, broken, or far behind. */
  get takesBlocks(): boolean {
    return this.#pendingBytes <= maxPendingBytes / 2 && performance.now() >= this.#pausedUntilMs;
  }

  /** Whether it is here, or on its way. */
  has(name: string): boolean {
    return this.#blocks.has(name) || this.#pending.has(name);
  }

  /** Reads a block; null when it is not here, or not as it was written. */
  async read(name: string): Promise<Uint8Array | null> {
    const pending = this.#pending.get(name);
    if (pending !== undefined) {
      return pending.bytes;
    }
    const stored = this.#blocks.get(name);
    if (stored === undefined) {
      return null;
    }
    this.#blocks.delete(name);
    this.#blocks.set(name, stored);
    let bytes: Uint8Array;
    try {
      bytes = await readFile(stored.file);
    } catch (error) {
      this.#o.logger.debug({ err: error }, "a block of the object cache cannot be read");
      this.#dropDamaged(name, stored);
      return null;
    }
    if (bytes.length === stored.length && crc32(bytes) === stored.crc) {
      return bytes;
    }
    this.#dropDamaged(name, stored);
    return null;
  }

  /** Writes a block some time soon, or not at all. `bytes` must not change. */
  write(block: Block, bytes: Uint8Array): void {
    const name = blockName(block);
    if (this.#stopped || this.has(name) || bytes.length > this.#o.maxBytes) {
      return;
    }
    if (this.#pendingBytes + bytes.length > maxPendingBytes || performance.now() < this.#pausedUntilMs) {
      this.#o.counts.unwrittenBlocks.inc();
      return;
    }
    const pending = { block, bytes };
    this.#pending.set(name, pending);
    this.#pendingBytes += bytes.length;
    this.#queue.push(pending);
    if (this.#writers.size < parallelWrites) {
      const writer = this.#writeQueue().finally(() => this.#writers.delete(writer));
      this.#writers.add(writer);
    }
  }

  remove(name: string): void {
    // Whoever is writing it removes it in the end.
    this.#pending.delete(name);
    const stored = this.#blocks.get(name);
    if (stored !== undefined) {
      void this.#forget(name, stored);
    }
  }

  /** Notes for the next process that the objects of these blocks are known to exist now. */
  async touch(names: Iterable<string>): Promise<void> {
    const now = new Date();
    for (const name of names) {
      const stored = this.#blocks.get(name);
      if (stored !== undefined) {
        // One that was removed meanwhile needs no time.
        await utimes(stored.file, now, now).catch(() => undefined);
      }
    }
  }

  /** Waits until what was to be written is. */
  async idle(): Promise<void> {
    while (this.#writers.size > 0) {
      await Promise.all(this.#writers);
    }
  }

  /** Writes what waits, and nothing more. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.idle();
  }

  /** Never rejects. */
  async #writeQueue(): Promise<void> {
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      const name = blockName(next.block);
      try {
        if (this.#pending.get(name) === next) {
          await this.#writeInRoom(name, next);
        }
      } catch (error) {
        this.#o.counts.unwrittenBlocks.inc();
        this.#warn(
          "unwritten",
          { err: error, directory: this.#o.directory },
          "the disk of the object cache cannot be written: it is full or broken, or nobody may write (SVC_OBJECT_CACHE_DIR); blocks are left out",
        );
        this.#pausedUntilMs = performance.now() + pauseMs;
        if (this.#pending.get(name) === next) {
          this.#pending.delete(name);
          this.#o.onEvicted(name);
        }
      } finally {
        this.#pendingBytes -= next.bytes.length;
      }
    }
  }

  /** Others may have filled the disk before the bound was reached: what was read longest ago makes room then, too. */
  async #writeInRoom(name: string, pending: Pending): Promise<void> {
    for (;;) {
      try {
        await this.#write(name, pending);
        return;
      } catch (error) {
        if (!isDiskFull(error) || !(await this.#removeOldest(pending.bytes.length))) {
          throw error;
        }
        this.#warn(
          "full",
          { directory: this.#o.directory, bytes: this.#bytes, maxBytes: this.#o.maxBytes },
          "others fill the disk of the object cache, whose oldest blocks make room: free some, or lower SVC_OBJECT_CACHE_DISK_BYTES",
        );
      }
    }
  }

  async #write(name: string, pending: Pending): Promise<void> {
    const { block, bytes } = pending;
    const directory = path.join(this.#o.directory, block.objectId.slice(0, 2));
    const temporary = path.join(directory, `.${randomBytes(8).toString("hex")}${temporarySuffix}`);
    const crc = crc32(bytes);
    const file = path.join(directory, fileNameOf(block, crc));
    // Each time: somebody may have removed it.
    await mkdir(directory, { recursive: true, mode: 0o700 });
    try {
      const handle = await open(temporary, "wx", 0o600);
      try {
        await this.#o.at("file opened");
        await handle.writeFile(bytes);
      } finally {
        await handle.close();
      }
      await this.#o.at("file written");
      await rename(temporary, file);
      await this.#o.at("file named");
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      throw error;
    }
    if (this.#pending.get(name) === pending) {
      this.#pending.delete(name);
      this.#keep(name, { file, length: bytes.length, crc });
      this.#makeRoom();
      return;
    }
    // Removed meanwhile. One that was fetched anew since then has the same file.
    const isBack =
      this.#blocks.get(name)?.file === file || this.#pending.get(name)?.block.objectBytes === block.objectBytes;
    if (!isBack) {
      await rm(file, { force: true });
    }
  }

  #keep(name: string, stored: Stored): void {
    this.#blocks.set(name, stored);
    this.#bytes += onDisk(stored.length);
  }

  #makeRoom(): void {
    void this.#removeOldest(this.#bytes - this.#o.maxBytes);
  }

  /** Removes blocks of so many bytes, or all. @returns whether there was one, when the disk has room for it */
  async #removeOldest(bytes: number): Promise<boolean> {
    const removals: Promise<void>[] = [];
    let left = bytes;
    for (const [name, stored] of this.#blocks) {
      if (left <= 0) {
        break;
      }
      left -= onDisk(stored.length);
      this.#o.counts.evictedDisk.inc(stored.length);
      removals.push(this.#forget(name, stored));
      this.#o.onEvicted(name);
    }
    await Promise.all(removals);
    return removals.length > 0;
  }

  #dropDamaged(name: string, stored: Stored): void {
    if (this.#blocks.get(name) === stored) {
      this.#o.counts.damagedBlocks.inc();
      void this.#forget(name, stored);
    }
  }

  /** @returns when its file is gone, or cannot be removed */
  async #forget(name: string, { file, length }: Stored): Promise<void> {
    this.#blocks.delete(name);
    this.#bytes -= onDisk(length);
    await rm(file, { force: true }).catch((error: unknown) => {
      this.#o.logger.warn({ err: error }, "a block of the object cache cannot be removed");
    });
  }

  /** Blocks of an earlier process, those read longest ago first; everything else is removed. */
  async #takeOver(): Promise<FoundBlock[]> {
    const found: { readonly block: FoundBlock; readonly stored: Stored; readonly readMs: number }[] = [];
    const nowMs = Date.now();
    for (const folder of await readdir(this.#o.directory, { withFileTypes: true })) {
      const directory = path.join(this.#o.directory, folder.name);
      const names = folder.isDirectory() ? await readdir(directory) : [];
      const looked = await Promise.all(
        names.map(async (name) => {
          const file = path.join(directory, name);
          const said = saidBy(name);
          // One that somebody removes at this moment is no block.
          const { size, mtimeMs, atimeMs } = await stat(file).catch(() => ({ size: -1, mtimeMs: 0, atimeMs: 0 }));
          const isFromTheFuture = mtimeMs > nowMs + clockSlackMs;
          if (said === null || size !== lengthOfBlock(said) || isFromTheFuture) {
            await rm(file, { force: true, recursive: true });
            return null;
          }
          const block = { ...said, ageMs: Math.max(0, nowMs - mtimeMs) };
          return { block, stored: { file, length: size, crc: said.crc }, readMs: Math.max(atimeMs, mtimeMs) };
        }),
      );
      found.push(...looked.filter((one) => one !== null));
    }
    const kept: FoundBlock[] = [];
    for (const { block, stored } of found.toSorted((a, b) => a.readMs - b.readMs)) {
      const name = blockName(block);
      if (this.#blocks.has(name)) {
        await rm(stored.file, { force: true });
      } else {
        this.#keep(name, stored);
        kept.push(block);
      }
    }
    return kept;
  }
}

function onDisk(length: number): number {
  return Math.ceil(length / pageBytes) * pageBytes;
}

function fileNameOf({ objectId, index, objectBytes }: Block, crc: number): string {
  return `${objectId}.${index}.${objectBytes}.${crc.toString(16).padStart(8, "0")}`;
}

/** What the name of a file says; null when it is no name of ours. */
function saidBy(name: string): (Block & { readonly crc: number }) | null {
  const said = /^(?<id>[0-9a-f]{40})\.(?<index>\d{1,9})\.(?<bytes>\d{1,15})\.(?<crc>[0-9a-f]{8})$/u.exec(name)?.groups;
  return said === undefined
    ? null
    : {
        objectId: said["id"] ?? "",
        index: Number(said["index"]),
        objectBytes: Number(said["bytes"]),
        crc: Number.parseInt(said["crc"] ?? "", 16),
      };
}
