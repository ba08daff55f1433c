/** The blocks of a segment: each id once. */
import type { ProcessIdentity } from "./identity.js";

/** A block whose rows are in the segment. */
interface DecodedBlock {
  readonly blockId: string;
  readonly process: ProcessIdentity;
  /** Times of the first and last row. */
  readonly beginTimeNs: bigint;
  readonly endTimeNs: bigint;
  readonly rowCount: number;
  readonly payloadBytes: number;
}

/** See the head of this file. */
export class BlockSet {
  readonly #ids = new Set<string>();
  #blocks: DecodedBlock[] = [];
  #excluded: ReadonlySet<string> = new Set();

  /** Blocks in the order in which they came. */
  get all(): readonly DecodedBlock[] {
    return this.#blocks;
  }

  /** Starts over. @param excluded ids (text) of blocks already committed. */
  begin(excluded: ReadonlySet<string>): void {
    this.#blocks = [];
    this.#ids.clear();
    this.#excluded = excluded;
  }

  /** Whether this block is new: neither excluded nor met before. */
  isNew(blockId: string): boolean {
    return !this.#ids.has(blockId) && !this.#excluded.has(blockId);
  }

  add(block: DecodedBlock): void {
    this.#ids.add(block.blockId);
    this.#blocks.push(block);
  }

  /** Forgets all but the first `count` blocks. */
  truncate(count: number): void {
    for (const { blockId } of this.#blocks.splice(count)) {
      this.#ids.delete(blockId);
    }
  }
}
