/**
 * What the decoders of one request share: the input, and what is counted on the way. One object for
 * the life of a worker, so that hot functions see one hidden class.
 */
import { Utf8Column } from "../../lake/tables/columns.js";
import type { ProcessRow } from "../../lake/catalogue-rows.js";
import { freeHuge } from "../../runtime/free-buffer.js";
import { ProtobufReader } from "../../wire/protobuf-reader.js";
import { MessageScanner } from "./scan/message-scanner.js";

/** A request decodes to more memory than it may. */
export class DecodedSizeError extends Error {
  override readonly name = "DecodedSizeError";
}

/**
 * What rows and list elements are taken to cost beside their text, in bytes. The bound on decoded bytes
 * exists because two bytes of protobuf (an empty record) become a row of many columns. docs/sending.md reckons with it.
 */
export const decodedCost = { block: 1024, scope: 64, row: 256, element: 32, word: 8 } as const;

/**
 * Most blocks of a request. Each may be of a process that nobody knows, and then is three rows of the catalogue, in a
 * transaction that others wait for.
 */
export const maxBlocks = 16_384;
/** A process whose row of the catalogue is longer counts as a further block for each so many bytes of it. */
const blockRowBytes = 4096;

/** Most bytes of a resource or a scope, or of a metric's metadata: each is read as a whole, and kept as text for all below. */
export const maxAttributesBytes = 1024 * 1024;

/** The request has more blocks than its segment has room for; another segment has. */
export class SegmentFullError extends Error {
  override readonly name = "SegmentFullError";
}

/** Memory for a text that is kept between requests. */
const keptScratchBytes = 1024 * 1024;

/** Characters of a UUID's text. */
export const uuidTextLength = 36;

/** Two words as one signed 64-bit integer. */
const timeWords = new Int32Array(2);
const timeValue = new BigInt64Array(timeWords.buffer);

/** Why a record is not stored; public text. */
export const rejectReason = {
  text: "a string is not valid UTF-8",
  resourceText: "a string of the resource is not valid UTF-8",
  scopeText: "a string of the scope is not valid UTF-8",
  traceId: "a trace id is not 16 bytes (32 hex digits in JSON), or all zero where one is required",
  spanId: "a span id is not 8 bytes (16 hex digits in JSON), or all zero where one is required",
  time: "a timestamp is out of range",
} as const;

/** Counts and time bounds that records must not leave a trace in when they are discarded together. */
interface RecordCounts {
  readonly records: number;
  readonly rejected: number;
  readonly rejectedReason: string | null;
  readonly hasTime: boolean;
  readonly firstLow: number;
  readonly firstHigh: number;
  readonly lastLow: number;
  readonly lastHigh: number;
}

/** Fields that all kinds of histogram point have; one object serves every point. */
export class HistogramPoint {
  row = 0;
  textBefore = 0;
  startLow = 0;
  startHigh = 0;
  timeLow = 0;
  timeHigh = 0;
  countLow = 0;
  countHigh = 0;
  hasSum = false;
  sumLow = 0;
  sumHigh = 0;
  hasMin = false;
  minLow = 0;
  minHigh = 0;
  hasMax = false;
  maxLow = 0;
  maxHigh = 0;
  flags = 0;
}

/** State of the current request; see the head of this file. */
export class DecodeContext {
  readonly reader: ProtobufReader;
  readonly scanner: MessageScanner;
  /** Bytes that the request may decode to. */
  decodedLimit = 0;
  /** Bytes that it did decode to, roughly; see {@link decodedCost}. */
  decodedBytes = 0;
  /** Blocks so far, and what large processes count for. */
  blocks = 0;
  /** Blocks that its segment has room for. */
  blockRoom = maxBlocks;
  readonly #largeProcesses = new Set<string>();
  /** Rows kept. */
  records = 0;
  /** Records taken back, and the first reason. */
  rejected = 0;
  rejectedReason: string | null = null;
  /** Attributes with a reserved name that were left out. */
  droppedAttributes = 0;
  /** Set by text that is not UTF-8; cleared by the code that handles the record, scope or resource. */
  badText = false;
  /** Why the current record cannot be stored, besides its text; cleared with it. */
  problem: string | null = null;
  /** Time of receipt, in words. */
  receivedLow = 0;
  receivedHigh = 0;
  /** Earliest and latest time of the current block, in words. `hasTime` says whether there is one. */
  hasTime = false;
  firstLow = 0;
  firstHigh = 0;
  lastLow = 0;
  lastHigh = 0;
  /** Of the current metric. */
  temporality = 0;
  isMonotonic = false;
  /** The current histogram point. */
  readonly point = new HistogramPoint();
  /** Id of the current block, as text. */
  readonly blockId = new Uint8Array(uuidTextLength);
  /** Memory for text on its way into a dictionary. */
  scratch = new Utf8Column();
  /** Attributes of a metric on their way into a dictionary. */
  readonly metadata = new Utf8Column();

  constructor(maxDepth: number) {
    this.reader = new ProtobufReader(maxDepth);
    this.scanner = new MessageScanner(maxDepth);
  }

  /** Forgets the last request. */
  start(decodedLimit: number, blockRoom: number): void {
    this.decodedLimit = decodedLimit;
    this.blockRoom = blockRoom;
    this.decodedBytes = 0;
    this.blocks = 0;
    if (this.#largeProcesses.size > 0) {
      this.#largeProcesses.clear(); // it makes a new table, even when there is nothing in it
    }
    this.records = 0;
    this.rejected = 0;
    this.rejectedReason = null;
    this.droppedAttributes = 0;
    this.badText = false;
    this.problem = null;
  }

  /** Gives memory beyond measure back. */
  release(): void {
    if (this.scratch.bytes.length > keptScratchBytes) {
      freeHuge(this.scratch.bytes);
      this.scratch = new Utf8Column();
    }
  }

  /** Counts decoded memory; throws {@link DecodedSizeError} beyond the limit. */
  charge(bytes: number): void {
    this.decodedBytes += bytes;
    if (this.decodedBytes > this.decodedLimit) {
      const most = this.decodedLimit;
      throw new DecodedSizeError(`the request decodes to more than ${most} bytes; send fewer records in one`);
    }
  }

  /** Counts a block; throws {@link DecodedSizeError} or {@link SegmentFullError} beyond what there may be. */
  chargeBlock(): void {
    this.#countBlocks(1);
    this.charge(decodedCost.block);
  }

  /** Counts the row of a block's process, once in a request; throws as {@link chargeBlock}. */
  chargeProcess({ processId, columns }: ProcessRow): void {
    if (columns.length >= blockRowBytes && !this.#largeProcesses.has(processId)) {
      this.#largeProcesses.add(processId);
      this.#countBlocks(Math.floor(columns.length / blockRowBytes));
    }
  }

  #countBlocks(count: number): void {
    this.blocks += count;
    if (this.blocks > this.blockRoom) {
      throw this.blocks > maxBlocks
        ? new DecodedSizeError(`the request has more than ${maxBlocks} resources, or large ones; send fewer in one`)
        : new SegmentFullError();
    }
  }

  /** Counts records that are not stored. */
  reject(count: number, reason: string): void {
    if (count === 0) {
      return;
    }
    this.rejected += count;
    this.rejectedReason ??= reason;
  }

  /** Earliest time of the block, nanoseconds. */
  firstTime(): bigint {
    timeWords[0] = this.firstLow;
    timeWords[1] = this.firstHigh;
    return timeValue[0]!;
  }

  /** Latest time of the block, nanoseconds. */
  lastTime(): bigint {
    timeWords[0] = this.lastLow;
    timeWords[1] = this.lastHigh;
    return timeValue[0]!;
  }

  /** The counts so far, for {@link restore}. */
  counts(): RecordCounts {
    return {
      records: this.records,
      rejected: this.rejected,
      rejectedReason: this.rejectedReason,
      hasTime: this.hasTime,
      firstLow: this.firstLow,
      firstHigh: this.firstHigh,
      lastLow: this.lastLow,
      lastHigh: this.lastHigh,
    };
  }

  /** Forgets what was counted since. */
  restore(counts: RecordCounts): void {
    this.records = counts.records;
    this.rejected = counts.rejected;
    this.rejectedReason = counts.rejectedReason;
    this.hasTime = counts.hasTime;
    this.firstLow = counts.firstLow;
    this.firstHigh = counts.firstHigh;
    this.lastLow = counts.lastLow;
    this.lastHigh = counts.lastHigh;
  }

  /** Rejects every record that was kept since. */
  rejectSince(counts: RecordCounts, reason: string): void {
    const lost = this.records - counts.records;
    const { rejected, rejectedReason } = this;
    this.restore(counts);
    this.rejected = rejected;
    this.rejectedReason = rejectedReason;
    this.reject(lost, reason);
  }

  /**
   * Settles the current record: counts it as stored, or as rejected when it had any fault.
   * @returns whether it is kept.
   */
  settle(): boolean {
    if (this.problem === null && !this.badText) {
      this.records++;
      return true;
    }
    this.reject(1, this.problem ?? rejectReason.text);
    this.problem = null;
    this.badText = false;
    return false;
  }

  /** Widens the time bounds of the block by a time in `[0, 2^63)`. */
  noteTime(low: number, high: number): void {
    if (!this.hasTime) {
      this.hasTime = true;
      this.firstLow = low;
      this.firstHigh = high;
      this.lastLow = low;
      this.lastHigh = high;
      return;
    }
    if (high < this.firstHigh || (high === this.firstHigh && low >>> 0 < this.firstLow >>> 0)) {
      this.firstLow = low;
      this.firstHigh = high;
    }
    if (high > this.lastHigh || (high === this.lastHigh && low >>> 0 > this.lastLow >>> 0)) {
      this.lastLow = low;
      this.lastHigh = high;
    }
  }
}

/** Whether a timestamp cannot be stored: 2^63 - 1 nanoseconds or later. */
export function isTimeOutOfRange(low: number, high: number): boolean {
  return high < 0 || (high === 0x7fffffff && low === -1);
}
