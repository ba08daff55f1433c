/** A table and audience in memory, to which objects come and which is merged as maintenance would: a merge is a sum. */
import {
  bucketWithin,
  chooseObjects,
  dueLevels,
  enough,
  fullObject,
  groupsToJoin,
  areJoined,
  type GroupCounts,
  type GroupMerge,
  type LevelObject,
  maxSources,
  type MergeRoom,
  type OpenLevel,
} from "../../../src/lake/merge/merge-levels.js";

/** Rows of one arrival that are in one object; a row of an arrival is in one piece. */
interface Piece {
  readonly arrival: number;
  readonly timeNs: bigint;
  readonly rows: number;
}

interface SimulatedObject extends Omit<LevelObject, "level" | "minTimeNs" | "maxTimeNs"> {
  readonly level: 0 | 1 | 2 | 3;
  readonly minTimeNs: bigint;
  readonly maxTimeNs: bigint;
  readonly pieces: readonly Piece[];
}

const second = 1_000_000_000n;
const bytesPerRow = 60;
/** What an object takes beside its rows. */
const bytesPerObject = 4000;

export class SimulatedCatalogue {
  readonly #room: MergeRoom;
  #objects = new Map<string, SimulatedObject>();
  readonly #counts = [0, 1, 2].map(() => ({ objects: 0, rows: 0, bytes: 0 }));
  #arrivals = 0;
  #lastArrivalSeconds = 0;
  #names = 0;
  rowsArrived = 0;
  /** Rows that merges have written, by the level of what they made. */
  readonly rowsWritten = [0, 0, 0, 0];
  merges = 0;

  constructor(room: MergeRoom) {
    this.#room = room;
  }

  /** An object of level 0 (or as if already merged so often) with rows of a few times. */
  add(nowSeconds: number, rows: number, timesNs: readonly bigint[], level: 0 | 1 = 0): void {
    const arrival = this.#arrivals++;
    this.#lastArrivalSeconds = nowSeconds;
    this.rowsArrived += rows;
    const part = Math.ceil(rows / timesNs.length);
    const pieces = timesNs.map((timeNs, i) => ({ arrival, timeNs, rows: Math.min(part, rows - i * part) }));
    this.#put(
      level,
      pieces.filter((piece) => piece.rows > 0),
    );
  }

  /** Merges until nothing is due. */
  mergeAll(nowSeconds: number): void {
    while (this.#mergeOnce(nowSeconds) !== null) {
      // Each takes objects a level up, so it ends.
    }
  }

  /** One merge, if one is due. */
  #mergeOnce(nowSeconds: number): GroupMerge | null {
    const [fresh, once, twice] = this.#counts;
    if (fresh === undefined || once === undefined || twice === undefined) {
      throw new Error("no counts");
    }
    const counts: GroupCounts = { levels: [fresh, once, twice], quietSeconds: nowSeconds - this.#lastArrivalSeconds };
    const due = dueLevels(counts, this.#room);
    if (due === null) {
      return null;
    }
    const candidates = this.#candidates(due);
    const merge = chooseObjects(candidates, this.#room);
    if (merge === null) {
      return null;
    }
    this.merges++;
    const sources = merge.partitionIds.map((id) => {
      const object = this.#objects.get(id);
      if (object === undefined) {
        throw new Error("a merge names an object that is not there");
      }
      return object;
    });
    if (new Set(merge.partitionIds).size !== sources.length) {
      throw new Error("a merge names an object twice");
    }
    const joined = merge.level > 1 && areJoined(sources);
    for (const group of joined ? groupsToJoin(sources, merge.widthSeconds) : [sources]) {
      this.#replace(group, merge, joined);
    }
    if (sources.every(({ partitionId }) => this.#objects.has(partitionId))) {
      throw new Error("a merge changes nothing");
    }
    return merge;
  }

  #replace(group: readonly SimulatedObject[], { level, widthSeconds }: GroupMerge, joined: boolean): void {
    for (const source of group) {
      this.#objects.delete(source.partitionId);
      this.#count(source, -1);
    }
    const pieces = group.flatMap((source) => source.pieces);
    this.rowsWritten[level] = (this.rowsWritten[level] ?? 0) + pieces.reduce((sum, { rows }) => sum + rows, 0);
    const outputs = new Map<string, Piece[]>();
    for (const piece of pieces) {
      const at = { minTimeNs: piece.timeNs, maxTimeNs: piece.timeNs };
      const bucket = joined ? "all" : String(bucketWithin(at, widthSeconds));
      const output = outputs.get(bucket);
      if (output === undefined) {
        outputs.set(bucket, [piece]);
      } else {
        output.push(piece);
      }
    }
    for (const output of outputs.values()) {
      this.#put(level, output);
    }
  }

  #candidates(levels: readonly OpenLevel[]): LevelObject[] {
    return [...this.#objects.values()]
      .filter((object) => levels.some((level) => level === object.level) && !isFull(object))
      .map((object) => ({ ...object, level: levels.find((level) => level === object.level) ?? 0 }))
      .toSorted((a, b) => (a.minTimeNs < b.minTimeNs ? -1 : a.minTimeNs > b.minTimeNs ? 1 : 0))
      .slice(0, maxSources);
  }

  #put(level: 0 | 1 | 2 | 3, pieces: readonly Piece[]): void {
    const rowCount = pieces.reduce((sum, { rows }) => sum + rows, 0);
    const [first] = pieces;
    if (first === undefined) {
      return;
    }
    const object: SimulatedObject = {
      partitionId: String(this.#names++),
      level,
      rowCount,
      fileBytes: bytesPerObject + rowCount * bytesPerRow,
      minTimeNs: pieces.reduce((least, { timeNs }) => (timeNs < least ? timeNs : least), first.timeNs),
      maxTimeNs: pieces.reduce((most, { timeNs }) => (timeNs > most ? timeNs : most), first.timeNs),
      pieces,
    };
    this.#objects.set(object.partitionId, object);
    this.#count(object, 1);
  }

  #count(object: SimulatedObject, sign: 1 | -1): void {
    const counts = this.#counts[object.level];
    if (counts !== undefined && !isFull(object)) {
      counts.objects += sign;
      counts.rows += sign * object.rowCount;
      counts.bytes += sign * object.fileBytes;
    }
  }

  get objects(): number {
    return this.#objects.size;
  }

  /** Objects that may hold rows since then. */
  opened(sinceSeconds: number): number {
    const sinceNs = BigInt(sinceSeconds) * second;
    let count = 0;
    for (const { maxTimeNs } of this.#objects.values()) {
      count += maxTimeNs >= sinceNs ? 1 : 0;
    }
    return count;
  }

  /** Objects of a level that wait to be merged. */
  waiting(level: OpenLevel): number {
    return this.#counts[level]?.objects ?? 0;
  }

  /** Throws unless every row that arrived is in exactly one object. */
  checkRows(): void {
    const rows = Array.from({ length: this.#arrivals }, () => 0);
    const seen = new Set<Piece>();
    let sum = 0;
    for (const { pieces } of this.#objects.values()) {
      for (const piece of pieces) {
        if (seen.has(piece)) {
          throw new Error(`rows of arrival ${piece.arrival} are stored twice`);
        }
        seen.add(piece);
        rows[piece.arrival] = (rows[piece.arrival] ?? 0) + piece.rows;
        sum += piece.rows;
      }
    }
    if (rows.some((count) => count === 0) || sum !== this.rowsArrived) {
      throw new Error(`${sum} of ${this.rowsArrived} rows are stored`);
    }
  }
}

/** Objects that wait at most once nothing is due. */
export const mostWaiting = enough.map((count) => count - 1);

function isFull({ level, rowCount, fileBytes }: SimulatedObject): boolean {
  return level > 0 && (rowCount >= fullObject.rows || fileBytes >= fullObject.bytes);
}
