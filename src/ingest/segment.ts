/**
 * Requests in, columns out: what an encode worker makes of one batch. A segment holds one set of tables
 * per write audience, and the catalogue rows that go with them.
 *
 * A request succeeds or fails alone: everything it wrote is taken back when it is malformed. Bytes that
 * are not what they claim to be never throw out of {@link SegmentBuilder.add}.
 */
import type { BlockRow, ProcessRow, StreamRow } from "../lake/catalogue-rows.js";
import type { AudienceGroup, Segment } from "../lake/write-segment.js";
import { MalformedError } from "../wire/protobuf-reader.js";
import { AudienceRows, TablePool } from "./rows/audience-rows.js";
import { BlockSet } from "./rows/block-set.js";
import { DecodeContext, DecodedSizeError, maxBlocks, SegmentFullError } from "./decode/decode-context.js";
import { decodeRequest, type DecodeTarget } from "./decode/decode-request.js";
import { type AudienceIdentity, createAudienceIdentity } from "./rows/identity.js";
import { InflatedSizeError } from "./body/inflate.js";
import type { BodyHead } from "./body-head.js";
import type { IngestResult } from "./request.js";
import { RequestInput } from "./request-input.js";
import { ResourceReader } from "./decode/resource.js";

/**
 * What became of one request; unavailable: the segment is full, and the same request fits into another one; large: it
 * fits only into one for large requests.
 */
export type RequestOutcome =
  | Extract<IngestResult, { kind: "stored" | "failed" | "unavailable" }>
  | { readonly kind: "large" };

/** Bounds of a builder. */
export interface SegmentBuilderOptions {
  /** Size of one body after inflation, in bytes. */
  readonly maxInflatedBytes: number;
  /** Nesting of messages, groups and AnyValue below the request message. */
  readonly maxDepth: number;
}

/**
 * A request may decode to this many times the size that its body may have (see decode-context.ts). A segment that holds
 * as much takes no further request: thousands of small bodies may each inflate to the limit.
 */
const decodedPerInflatedByte = 4;
/**
 * Nor does one for large requests after so many blocks. In any other one, a request has as many blocks at most as are not
 * large, and requests have so many beyond their first together: each may be of a new process, for 30 bytes of a body, and
 * the senders of all requests wait for its transaction.
 */
const fullBlocks = 8192;
const largeBlocks = 1024;
const fullFurtherBlocks = 2048;

/** The outcome of a request that there is no room for. */
export const full: RequestOutcome = { kind: "unavailable", retryAfterSeconds: 1 };

/** Audiences whose namespaces are remembered. */
const knownAudiences = 4096;

/** Builds segments, one after the other; lives as long as its worker and keeps its memory. */
export class SegmentBuilder {
  readonly #options: SegmentBuilderOptions;
  readonly #context: DecodeContext;
  readonly #input: RequestInput;
  readonly #target: DecodeTarget;
  readonly #pool = new TablePool();
  readonly #audiences = new Map<string | null, AudienceIdentity>();
  #nextOrdinal = 0;
  readonly #groups = new Map<string | null, AudienceRows>();
  readonly #insertTime = new Uint8Array(8);
  readonly #blocks = new BlockSet();
  #decodedBytes = 0;
  #large = false;
  /** Also those that are left out or taken back. */
  #readBlocks = 0;
  #furtherBlocks = 0;

  constructor(options: SegmentBuilderOptions) {
    this.#options = options;
    this.#context = new DecodeContext(options.maxDepth);
    this.#input = new RequestInput(options);
    this.#target = {
      resources: new ResourceReader(this.#context),
      insertTime: this.#insertTime,
      blocks: this.#blocks,
    };
  }

  /**
   * Starts a segment and drops the last one.
   * @param receivedUnixNano insert_time of all rows, and the time of records that carry none.
   * @param excludedBlocks ids (text) of blocks already committed: their rows are left out.
   * @param large of large requests
   */
  begin(receivedUnixNano: bigint, excludedBlocks: ReadonlySet<string>, large = false): void {
    this.end();
    this.#blocks.begin(excludedBlocks);
    this.#decodedBytes = 0;
    this.#large = large;
    this.#readBlocks = 0;
    this.#furtherBlocks = 0;
    const view = new DataView(this.#insertTime.buffer);
    view.setBigInt64(0, receivedUnixNano, true);
    this.#context.receivedLow = view.getInt32(0, true);
    this.#context.receivedHigh = view.getInt32(4, true);
  }

  /**
   * Adds one request. @param body as sent; may be in shared memory; it is not kept.
   * @returns its outcome; a failed request leaves no row behind.
   */
  add(body: Uint8Array, head: BodyHead): RequestOutcome {
    const decodedLimit = this.#options.maxInflatedBytes * decodedPerInflatedByte;
    if (this.#decodedBytes >= decodedLimit || (this.#large && this.#readBlocks >= fullBlocks)) {
      return full;
    }
    const rows = this.#rowsOf(head.audience);
    const { signal } = head;
    const blocksBefore = this.#blocks.all.length;
    const firstMark = rows.primary(signal)?.rows ?? 0;
    const secondMark = rows.secondary(signal)?.rows ?? 0;
    const context = this.#context;
    try {
      context.start(decodedLimit, this.#blockRoom());
      const { bytes, start, end } = this.#input.load(body, head);
      context.reader.attach(bytes);
      context.scanner.begin(bytes, end);
      decodeRequest(context, this.#target, rows, signal, start, end);
      return {
        kind: "stored",
        records: context.records,
        rejected: context.rejected,
        rejectedReason: context.rejectedReason,
        droppedAttributes: context.droppedAttributes,
      };
    } catch (error) {
      rows.primary(signal)?.truncate(firstMark);
      rows.secondary(signal)?.truncate(secondMark);
      this.#blocks.truncate(blocksBefore);
      if (error instanceof SegmentFullError) {
        return context.blocks > largeBlocks ? { kind: "large" } : full;
      }
      return failureOf(error);
    } finally {
      context.scanner.flush();
      this.#decodedBytes += context.decodedBytes;
      this.#readBlocks += context.blocks;
      this.#furtherBlocks += Math.max(0, context.blocks - 1);
    }
  }

  /** What the body of the last request took to inflate, in bytes, whatever became of it. */
  get inflatedBytes(): number {
    return this.#input.inflatedBytes;
  }

  /** Drops the segment, and gives memory beyond measure back: the next one may be long in coming. */
  end(): void {
    this.#input.release();
    this.#context.release();
    for (const rows of this.#groups.values()) {
      rows.release();
    }
    this.#groups.clear();
  }

  /** Blocks that the next request may have. */
  #blockRoom(): number {
    return this.#large ? maxBlocks : Math.min(largeBlocks, 1 + Math.max(0, fullFurtherBlocks - this.#furtherBlocks));
  }

  /** The segment: it shares the builder's memory until {@link end}, or the next {@link begin}. */
  finish(): Segment {
    const groups: AudienceGroup[] = [];
    for (const [audience, rows] of this.#groups) {
      groups.push({ audience, tables: rows.tables() });
    }
    const processes = new Map<string, ProcessRow>();
    const streams = new Map<string, StreamRow>();
    const blocks: BlockRow[] = [];
    for (const block of this.#blocks.all) {
      const { blockId, process, beginTimeNs, endTimeNs, rowCount, payloadBytes } = block;
      const { row, audience, streamId, signal } = process;
      const { processId } = row;
      if (!processes.has(processId)) {
        processes.set(processId, row);
      }
      if (!streams.has(streamId)) {
        streams.set(streamId, { streamId, processId, audience, signal });
      }
      blocks.push({
        blockId,
        streamId,
        processId,
        audience,
        signal,
        beginTimeNs,
        endTimeNs,
        rowCount,
        payloadBytes,
      });
    }
    return { groups, processes: [...processes.values()], streams: [...streams.values()], blocks };
  }

  #rowsOf(audience: string | null): AudienceRows {
    let rows = this.#groups.get(audience);
    if (rows === undefined) {
      rows = new AudienceRows(this.#identityOf(audience), this.#pool);
      this.#groups.set(audience, rows);
    }
    return rows;
  }

  #identityOf(audience: string | null): AudienceIdentity {
    let identity = this.#audiences.get(audience);
    if (identity === undefined) {
      if (this.#audiences.size >= knownAudiences) {
        this.#audiences.clear();
      }
      identity = createAudienceIdentity(audience, this.#nextOrdinal++);
      this.#audiences.set(audience, identity);
    }
    return identity;
  }
}

/** Words an expected failure; anything else is a defect and goes on up. */
function failureOf(error: unknown): RequestOutcome {
  if (error instanceof MalformedError) {
    return { kind: "failed", code: "BAD_REQUEST", message: error.message };
  }
  if (error instanceof DecodedSizeError || error instanceof InflatedSizeError) {
    return { kind: "failed", code: "PAYLOAD_TOO_LARGE", message: error.message };
  }
  throw error;
}
