/**
 * Objects of an object store, which never change, in blocks: in memory, on the disk, or on their way from the origin.
 *
 * **One fetch per block**, however many wait for it. Nobody who leaves ends it: what was begun is kept for the next. What
 * has not begun when all have left is not fetched: after a store that stood still, those who ask now would wait for it.
 * Nor is an object looked for any longer.
 * Neighbours that are missing come with one request, and a reader's next ones while it takes those before. Callers take
 * turns, however many objects each asks for, and so do reads of a block and those of more.
 *
 * **What was removed from the store leaves** within the time to live. An object that is asked for is looked for in the
 * origin again before its time is over; of one that nobody asks for, all blocks go then.
 */
import { setMaxListeners } from "node:events";

import { underSignals } from "telemetry-service-client/shared/abort";
import { DamagedObject } from "../lake/store/object-store.js";
import { SharedWork, unlessAborted } from "../runtime/aborts.js";
import { ServiceError } from "../runtime/errors.js";
import type { Logger } from "../runtime/log/log.js";
import { Turns } from "../runtime/turns/turns.js";
import {
  type Block,
  blockBytes,
  blockCount,
  blockName,
  type CachedObject,
  type FillPoint,
  lengthOfBlock,
  objectIdOf,
} from "./blocks.js";
import { DiskBlocks } from "./disk-blocks.js";
import { MemoryBlocks } from "./memory-blocks.js";
import type { ObjectCacheCounts } from "./object-cache-counts.js";
import type { Origin } from "./origin.js";

/** What the cache is made of. */
interface ObjectCacheOptions {
  readonly origin: Origin;
  readonly memoryBytes: number;
  /** Null: nothing is kept on a disk. */
  readonly disk: { readonly directory: string; readonly maxBytes: number } | null;
  readonly ttlMs: number;
  readonly monotonicMs: () => number;
  readonly counts: ObjectCacheCounts;
  readonly logger: Logger;
  /** Is told of each step of a fill, and may end the process there. */
  readonly at?: (point: FillPoint) => Promise<void> | void;
}

/** What is known of an object. */
interface Entry {
  readonly bytes: number;
  /** When the origin was last known to have it. */
  checkedMs: number;
  /** Indices of blocks that may be in a tier. */
  readonly blocks: Set<number>;
}

interface Deferred {
  readonly block: Block;
  readonly promise: Promise<Uint8Array>;
  readonly resolve: (bytes: Uint8Array) => void;
  readonly reject: (error: unknown) => void;
}

/** A block on its way into memory. */
interface Load {
  readonly promise: Promise<Uint8Array>;
  /** Of those who asked for it, or for what comes with it; all aborted: nobody waits any more. */
  readonly callers: AbortSignal[];
}

/** What a reader wants of an object. */
interface Wanted {
  /** The last block. */
  readonly last: number;
  /** Aborted: nothing any more. */
  readonly signal: AbortSignal;
  /** Others take turns with it. */
  readonly group: string;
}

/** Most blocks of one request to the origin. */
const blocksPerFetch = 4;
/**
 * What memory holds of a reader, in blocks of a request: those of one request and of the next, and as many that were read
 * meanwhile, since what was read longest ago is what makes room.
 */
const requestsInMemory = 4;
const parallelFetches = 16;
/** Longest read of such blocks, waiting for a turn not included, and longest look for an object. */
const fetchMs = 60_000;
const checkMs = 15_000;
/** An object that is asked for after this share of its time to live is looked for again. */
const earlyCheck = 0.75;
/** What is known of objects takes memory, too. */
const maxObjects = 500_000;

/** See the head of the file. */
export class ObjectCache {
  readonly #o: ObjectCacheOptions;
  readonly #memory: MemoryBlocks;
  #disk: DiskBlocks | null = null;
  /** By id; what was checked longest ago first. */
  readonly #entries = new Map<string, Entry>();
  readonly #checks = new Map<string, SharedWork<Entry>>();
  /** Blocks on their way into memory, by name. */
  readonly #loads = new Map<string, Load>();
  readonly #turns = new Turns(parallelFetches);
  /** Reads under way. */
  #readers = 0;
  readonly #stopping = new AbortController();
  readonly #at: (point: FillPoint) => Promise<void> | void;

  private constructor(o: ObjectCacheOptions) {
    this.#o = o;
    // Every request to the origin listens to it.
    setMaxListeners(0, this.#stopping.signal);
    this.#at = o.at ?? (() => undefined);
    this.#memory = new MemoryBlocks(o.memoryBytes, (name, bytes) => {
      o.counts.evictedMemory.inc(bytes);
      this.#forgetEvicted(name);
    });
  }

  /** Opens the cache with the blocks that an earlier process left on the disk. @throws what the file system does */
  static async open(o: ObjectCacheOptions): Promise<ObjectCache> {
    const cache = new ObjectCache(o);
    if (o.disk !== null) {
      await cache.#openDisk(o.disk);
    }
    return cache;
  }

  get memoryBytes(): number {
    return this.#memory.bytes;
  }

  get diskBytes(): number {
    return this.#disk?.bytes ?? 0;
  }

  get objects(): number {
    return this.#entries.size;
  }

  /**
   * An object that the origin is known to have.
   * @throws ServiceError NOT_FOUND; what the origin throws; what `signal` was aborted with
   */
  async describe(key: string, signal: AbortSignal): Promise<CachedObject> {
    const id = objectIdOf(key);
    const known = this.#entries.get(id);
    const ageMs = known === undefined ? Infinity : this.#o.monotonicMs() - known.checkedMs;
    if (known !== undefined && ageMs < this.#o.ttlMs) {
      if (ageMs >= this.#o.ttlMs * earlyCheck) {
        // Nobody waits for it, and a failure is tried again by the next.
        this.#check(key, id, this.#stopping.signal).catch(() => undefined);
      }
      return { key, id, bytes: known.bytes };
    }
    const { bytes } = await this.#check(key, id, signal);
    return { key, id, bytes };
  }

  /**
   * Bytes from `start` to `end`, which is not included, block by block, as views that must not be changed.
   * @param caller who asks, with whom others take turns
   * @throws as {@link describe}, before or between blocks
   */
  async *read(
    object: CachedObject,
    start: number,
    end: number,
    signal: AbortSignal,
    caller = "",
  ): AsyncGenerator<Uint8Array> {
    const wanted = wantedOf(start, end, signal, caller);
    this.#readers++;
    try {
      for (let at = start; at < end;) {
        const index = Math.floor(at / blockBytes);
        const first = index * blockBytes;
        const block = this.#memoryHit(object, index) ?? (await this.#load(object, index, wanted));
        const ahead = this.#blocksAtOnce;
        if (ahead > 0) {
          this.#readAhead(object, index + ahead, wanted);
        }
        yield block.subarray(at - first, end - first);
        at = first + block.length;
      }
    } finally {
      this.#readers--;
    }
  }

  /** Brings bytes from `start` to `end`, which is not included, into a tier. @throws as {@link read} */
  async warm(object: CachedObject, start: number, end: number, signal: AbortSignal): Promise<void> {
    const wanted = wantedOf(start, end, signal, "");
    for (let index = Math.floor(start / blockBytes); index <= wanted.last; index++) {
      if (this.#isMissing(object, index)) {
        await this.#load(object, index, wanted);
      }
    }
  }

  /** Removes objects whose time is over. */
  sweep(): void {
    const nowMs = this.#o.monotonicMs();
    for (const [id, entry] of this.#entries) {
      if (nowMs - entry.checkedMs >= this.#o.ttlMs) {
        this.#drop(id, entry, "expired");
      }
    }
  }

  /** Rejects when the origin cannot be read at present. */
  probe(): Promise<void> {
    return this.#o.origin.probe();
  }

  /** Waits until what was fetched is on the disk. */
  async idle(): Promise<void> {
    await this.#disk?.idle();
  }

  /** Ends fetches, and writes to the disk what was fetched. */
  async stop(): Promise<void> {
    this.#stopping.abort(new ServiceError("UNAVAILABLE", "the object cache is stopping"));
    await this.#disk?.stop();
  }

  async #openDisk(o: { readonly directory: string; readonly maxBytes: number }): Promise<void> {
    const { counts, logger } = this.#o;
    const onEvicted = (name: string): void => {
      this.#forgetEvicted(name);
    };
    const { disk, found } = await DiskBlocks.open({ ...o, counts, logger, onEvicted, at: this.#at });
    this.#disk = disk;
    const nowMs = this.#o.monotonicMs();
    for (const { objectId, index, objectBytes, ageMs } of found.toSorted((a, b) => b.ageMs - a.ageMs)) {
      const entry = this.#entries.get(objectId) ?? { bytes: objectBytes, checkedMs: 0, blocks: new Set<number>() };
      if (entry.bytes !== objectBytes) {
        disk.remove(blockName({ objectId, index }));
        continue;
      }
      // The youngest comes last.
      entry.checkedMs = nowMs - ageMs;
      entry.blocks.add(index);
      this.#entries.set(objectId, entry);
    }
    this.sweep();
  }

  /** Looks for an object at the origin as long as somebody waits for that. */
  #check(key: string, id: string, signal: AbortSignal): Promise<Entry> {
    let check = this.#checks.get(id);
    if (check === undefined || check.abandoned) {
      const begun = new SharedWork((left) => this.#checkOnce(key, id, left));
      const forget = (): void => {
        if (this.#checks.get(id) === begun) {
          this.#checks.delete(id);
        }
      };
      begun.done.then(forget, forget);
      this.#checks.set(id, begun);
      check = begun;
    }
    return check.join(signal);
  }

  /** @param left aborted when nobody waits any more */
  async #checkOnce(key: string, id: string, left: AbortSignal): Promise<Entry> {
    const { counts, monotonicMs, origin } = this.#o;
    const checkedMs = monotonicMs();
    counts.originRequests.inc({ kind: "size" });
    let bytes: number;
    try {
      bytes = await this.#within(checkMs, (signal) => origin.size(key, signal), left);
    } catch (error) {
      if (!left.aborted) {
        this.#originFailed(id, error);
      }
      throw error;
    }
    const known = this.#entries.get(id);
    if (known !== undefined && known.bytes !== bytes) {
      this.#o.logger.warn(
        { object: key },
        "an object was replaced by another in the object store, which never happens",
      );
      this.#drop(id, known, "replaced");
    }
    const entry = this.#entries.get(id) ?? { bytes, checkedMs, blocks: new Set<number>() };
    entry.checkedMs = checkedMs;
    this.#entries.delete(id);
    this.#entries.set(id, entry);
    for (const [oldest, forgotten] of this.#entries) {
      if (this.#entries.size <= maxObjects) {
        break;
      }
      this.#drop(oldest, forgotten, "too many");
    }
    void this.#disk?.touch([...entry.blocks].map((index) => blockName({ objectId: id, index })));
    return entry;
  }

  #memoryHit({ id }: CachedObject, index: number): Uint8Array | null {
    const block = this.#memory.get(blockName({ objectId: id, index }));
    if (block !== null) {
      this.#o.counts.fromMemory.inc();
    }
    return block;
  }

  #isMissing({ id }: CachedObject, index: number): boolean {
    const name = blockName({ objectId: id, index });
    return !this.#memory.has(name) && !this.#loads.has(name) && this.#disk?.has(name) !== true;
  }

  /**
   * How many blocks come with one request; 0: the wanted one alone, and none ahead. Fewer where no disk keeps them and
   * memory would have let them go before their reader comes: they would be fetched again, and again.
   */
  get #blocksAtOnce(): number {
    if (this.#disk?.takesBlocks === true) {
      return blocksPerFetch;
    }
    const inMemory = this.#o.memoryBytes / blockBytes;
    return Math.min(blocksPerFetch, Math.floor(inMemory / (requestsInMemory * Math.max(1, this.#readers))));
  }

  #readAhead(object: CachedObject, index: number, wanted: Wanted): void {
    if (index <= wanted.last && this.#isMissing(object, index)) {
      // Whoever waits has the failure.
      this.#load(object, index, wanted).catch(() => undefined);
    }
  }

  /** The block that is on its way already, or is from now. */
  #load(object: CachedObject, index: number, wanted: Wanted): Promise<Uint8Array> {
    const { last, signal, group } = wanted;
    const name = blockName({ objectId: object.id, index });
    const underWay = this.#loads.get(name);
    if (underWay !== undefined) {
      this.#o.counts.joined.inc();
      underWay.callers.push(signal);
      return unlessAborted(underWay.promise, signal);
    }
    const callers = [signal];
    if (this.#disk?.has(name) === true) {
      return unlessAborted(this.#register(name, this.#fromDisk(object, index, callers, group), callers), signal);
    }
    const most = this.#blocksAtOnce;
    let count = 1;
    while (count < most && index + count <= last && this.#isMissing(object, index + count)) {
      count++;
    }
    const [first] = this.#fetch(object, index, count, callers, group).map(({ block, promise }) =>
      this.#register(blockName(block), promise, callers),
    );
    return unlessAborted(first ?? Promise.reject(new TypeError("a block is not under way")), signal);
  }

  #register(name: string, promise: Promise<Uint8Array>, callers: AbortSignal[]): Promise<Uint8Array> {
    this.#loads.set(name, { promise, callers });
    const forget = (): void => {
      if (this.#loads.get(name)?.promise === promise) {
        this.#loads.delete(name);
      }
    };
    // Whoever waits has the failure.
    promise.then(forget, forget);
    return promise;
  }

  async #fromDisk(
    object: CachedObject,
    index: number,
    callers: readonly AbortSignal[],
    group: string,
  ): Promise<Uint8Array> {
    const block = { objectId: object.id, index, objectBytes: object.bytes };
    const bytes = await this.#disk?.read(blockName(block));
    if (bytes?.length === lengthOfBlock(block)) {
      this.#o.counts.fromDisk.inc();
      this.#keep(block, bytes);
      return bytes;
    }
    const [fetched] = this.#fetch(object, index, 1, callers, group);
    return fetched?.promise ?? Promise.reject(new TypeError("a fetch without a block"));
  }

  /** Begins to fetch neighbouring blocks with one request, when it is its turn and `callers` have not all left. */
  #fetch(
    object: CachedObject,
    first: number,
    count: number,
    callers: readonly AbortSignal[],
    group: string,
  ): readonly Deferred[] {
    const blocks = Array.from({ length: count }, (_, i) =>
      deferredOf({ objectId: object.id, index: first + i, objectBytes: object.bytes }),
    );
    const work = async (): Promise<void> => {
      if (callers.every(({ aborted }) => aborted)) {
        // Who comes now begins it anew.
        for (const { block } of blocks) {
          this.#loads.delete(blockName(block));
        }
        throw new ServiceError("CANCELLED");
      }
      this.#o.counts.fromOrigin.inc(count);
      try {
        await this.#within(fetchMs, (signal) => this.#transfer(object, blocks, signal));
      } catch (error) {
        this.#originFailed(object.id, error);
        throw error;
      }
    };
    this.#turns.run(this.#stopping.signal, work, group).catch((error: unknown) => {
      for (const { reject } of blocks) {
        // Nothing happens to those that are here.
        reject(error);
      }
    });
    return blocks;
  }

  /** Asks the origin, but not for longer than that. */
  async #within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>, ...ends: AbortSignal[]): Promise<T> {
    const late = AbortSignal.timeout(ms);
    try {
      return await underSignals([this.#stopping.signal, late, ...ends], work);
    } catch (error) {
      throw late.aborted ? new ServiceError("UNAVAILABLE", "the object store is too slow", { cause: error }) : error;
    }
  }

  async #transfer(object: CachedObject, blocks: readonly Deferred[], signal: AbortSignal): Promise<void> {
    const { counts, origin } = this.#o;
    const start = (blocks[0]?.block.index ?? 0) * blockBytes;
    const length = blocks.reduce((sum, { block }) => sum + lengthOfBlock(block), 0);
    const startedMs = performance.now();
    counts.originRequests.inc({ kind: "read" });
    await this.#at("fetch begun");
    let place = 0;
    let filled = 0;
    let content = bufferFor(blocks[0]);
    const take = async (bytes: Uint8Array): Promise<void> => {
      counts.originBytes.inc(bytes.length);
      for (let taken = 0; taken < bytes.length;) {
        const deferred = blocks[place];
        if (deferred === undefined) {
          throw new DamagedObject("the object store sent more than it was asked for");
        }
        const part = bytes.subarray(taken, taken + content.length - filled);
        content.set(part, filled);
        filled += part.length;
        taken += part.length;
        if (filled === content.length) {
          await this.#at("block fetched");
          this.#fetched(deferred, content);
          place++;
          filled = 0;
          content = bufferFor(blocks[place]);
        }
      }
    };
    await origin.read(object.key, { start, length }, take, signal, object.bytes);
    if (place < blocks.length) {
      throw new DamagedObject("an object of the object store is shorter than it was");
    }
    counts.originSeconds.observe((performance.now() - startedMs) / 1000);
  }

  #fetched({ block, resolve }: Deferred, bytes: Uint8Array): void {
    this.#keep(block, bytes);
    // What was dropped meanwhile must not come back.
    if (this.#entries.get(block.objectId)?.bytes === block.objectBytes) {
      this.#disk?.write(block, bytes);
    }
    resolve(bytes);
  }

  #keep(block: Block, bytes: Uint8Array): void {
    const entry = this.#entries.get(block.objectId);
    if (entry?.bytes === block.objectBytes) {
      entry.blocks.add(block.index);
      this.#memory.put(blockName(block), bytes);
    }
  }

  /** What is not there, or is not what it was, is not kept. */
  #originFailed(id: string, error: unknown): void {
    this.#o.counts.originFailures.inc();
    const entry = this.#entries.get(id);
    const isGone = error instanceof ServiceError && error.code === "NOT_FOUND";
    if (entry !== undefined && (isGone || error instanceof DamagedObject)) {
      this.#drop(id, entry, isGone ? "gone" : "damaged");
    }
  }

  #drop(id: string, entry: Entry, why: string): void {
    this.#o.counts.gone.inc({ why });
    this.#entries.delete(id);
    for (const index of entry.blocks) {
      const name = blockName({ objectId: id, index });
      this.#memory.delete(name);
      this.#disk?.remove(name);
    }
  }

  /** A block has left a tier; an object without any is not remembered. */
  #forgetEvicted(name: string): void {
    if (this.#memory.has(name) || this.#disk?.has(name) === true) {
      return;
    }
    const [id = "", index = ""] = name.split(".");
    const entry = this.#entries.get(id);
    if (entry?.blocks.delete(Number(index)) === true && entry.blocks.size === 0) {
      this.#entries.delete(id);
    }
  }
}

/** Small reads, of footers and small objects, do not wait behind their own caller's large ones: servers may share a key. */
function wantedOf(start: number, end: number, signal: AbortSignal, caller: string): Wanted {
  return { last: blockCount(end) - 1, signal, group: `${end - start <= blockBytes ? "small" : "large"} ${caller}` };
}

function bufferFor(deferred: Deferred | undefined): Uint8Array {
  return Buffer.allocUnsafeSlow(deferred === undefined ? 0 : lengthOfBlock(deferred.block));
}

function deferredOf(block: Block): Deferred {
  let settle: Pick<Deferred, "resolve" | "reject"> = { resolve: () => undefined, reject: () => undefined };
  const promise = new Promise<Uint8Array>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { block, promise, ...settle };
}
