/**
 * What to merge of the objects of one table and audience, and when. Pure.
 *
 * **An object's level is how often its rows have been merged**: 0 as ingested, then 1, 2 and 3, which is not merged any
 * more. So beyond level 0 a row is written at most twice, whatever arrives.
 *
 * **By size.** A level is merged into one object of the next when it has enough objects ({@link enough}), or enough
 * rows for a whole one. What waits is bounded by that: 63 objects of level 0, 31 of level 1 and 47 of level 2, beside
 * what arrives until the next look. An object of level 3 holds at least 1536 of level 1.
 *
 * **By age.** When nothing has arrived for a while ({@link enoughQuiet}), what is left of levels 0 and 1 becomes one object.
 *
 * **Sorted once.** Rows of level 0 are sorted, which bounds a merge by memory ({@link MergeRoom}). Sorted objects of a
 * fair size are joined: their row groups are copied one behind the other, and only the bounds of {@link joinRoom} count.
 * Smaller ones are sorted again, because tiny row groups would stay tiny.
 *
 * A merge cuts by time. Its buckets are just wide enough to leave few objects: days for a steady stream, years for a
 * trickle or for wrong clocks.
 */

/** A level whose objects are merged. */
export type OpenLevel = 0 | 1 | 2;

/** The levels whose objects are merged, in the order in which they are: those from above cost little, and are few. */
const openLevels: readonly OpenLevel[] = [2, 1, 0];

/** How much one merge may take. */
export interface MergeRoom {
  /** Rows of all its objects together. */
  readonly rows: number;
  /** Bytes of all its objects together. */
  readonly bytes: number;
}

/** The objects of one level together. */
export interface LevelCounts {
  readonly objects: number;
  readonly rows: number;
  readonly bytes: number;
}

/** What a table and audience has to merge. */
export interface GroupCounts {
  /** By level, without those of {@link fullObject}. */
  readonly levels: readonly [LevelCounts, LevelCounts, LevelCounts];
  /** Since the last row of levels 0 and 1 was received. */
  readonly quietSeconds: number;
}

/** An object that may be merged. */
export interface LevelObject {
  readonly partitionId: string;
  readonly level: OpenLevel;
  readonly rowCount: number;
  readonly fileBytes: number;
  /** Nanoseconds since 1970 UTC; null when no row has a time. */
  readonly minTimeNs: bigint | null;
  readonly maxTimeNs: bigint | null;
}

/** A merge of some objects of a table and audience. */
export interface GroupMerge {
  readonly partitionIds: readonly string[];
  readonly widthSeconds: number;
  /** Of what it makes. */
  readonly level: 1 | 2 | 3;
}

/** Objects of each level that start a merge of it. */
export const enough = [64, 32, 48] as const;
/** Objects of levels 0 and 1 that are worth a merge when nothing has arrived for so long. */
const enoughQuiet = [
  { afterSeconds: 1200, objects: 4 },
  { afterSeconds: 60, objects: 16 },
] as const;
/** Most objects of one merge. */
export const maxSources = 1000;
/** Rows per object from which on sorted ones are joined: a third of a row group. */
const joinRows = 20_480;
/** Most that is joined into one object: its footer grows with its row groups, and so does the price of opening it. */
export const joinRoom: MergeRoom = { rows: 1024 * 61_440, bytes: 4 * 2 ** 30 };
/** A sorted object of so many rows or bytes is left as it is. */
export const fullObject: MergeRoom = { rows: joinRoom.rows / 2, bytes: joinRoom.bytes / 2 };
/** Rows that make an object worth having, however few objects it was made from: two row groups. */
const worthyRows = 2 * 61_440;

const daySeconds = 86_400;
/** A day, about a month, about a year, and the widest that the catalogue can name (68 years). */
const widths = [daySeconds, 32 * daySeconds, 366 * daySeconds, 2 ** 31 - 1] as const;
const nsPerSecond = 1_000_000_000n;

/** The levels to merge now, together; null: nothing is worth it. */
export function dueLevels({ levels, quietSeconds }: GroupCounts, room: MergeRoom): readonly OpenLevel[] | null {
  const due = openLevels.find((level) => isDue(levels[level], level, room));
  if (due !== undefined) {
    return [due];
  }
  const [fresh, once] = levels;
  const least = enoughQuiet.find(({ afterSeconds }) => quietSeconds >= afterSeconds)?.objects ?? Infinity;
  if (fresh.objects + once.objects < least) {
    return null;
  }
  if (fresh.objects > 0 && once.objects > 0 && fitsInto(room, sumOf(fresh, once))) {
    return [0, 1];
  }
  const quiet = ([0, 1] as const).find((level) => levels[level].objects >= least);
  return quiet === undefined ? null : [quiet];
}

function isDue(counts: LevelCounts, level: OpenLevel, room: MergeRoom): boolean {
  const { objects, rows, bytes } = counts;
  if (objects >= enough[level]) {
    return true;
  }
  const whole = level === 0 ? room : joinRoom;
  return objects >= (level === 0 ? 1 : 2) && (rows >= whole.rows || bytes >= whole.bytes);
}

/**
 * What to merge of `objects`, all of the levels that are due, the oldest first; null when that would not make fewer of
 * them, nor sort any.
 */
export function chooseObjects(objects: readonly LevelObject[], room: MergeRoom): GroupMerge | null {
  const sorts = objects.some(({ level }) => level === 0);
  const taken = (sorts ? [false] : [areJoined(objects), true]).map((joins) =>
    withinRoom(objects, joins ? joinRoom : room),
  );
  // Sorted objects that are too large to be sorted together once more.
  const [found = []] = taken.filter((some) => some.length > 1 || sorts);
  if (found.length === 0) {
    return null;
  }
  const rows = found.reduce((sum, { rowCount }) => sum + rowCount, 0);
  const most = Math.max(1, Math.floor(found.length / 4), Math.floor(rows / worthyRows));
  const cut = sorts || !areJoined(found) ? sortedWithin(found, most) : joinedWithin(found, most);
  if (cut === null) {
    return null;
  }
  const level = Math.max(...found.map((object) => object.level)) + 1;
  return {
    partitionIds: cut.objects.map(({ partitionId }) => partitionId),
    widthSeconds: cut.widthSeconds,
    level: level === 1 || level === 2 ? level : 3,
  };
}

interface Cut {
  readonly objects: readonly LevelObject[];
  readonly widthSeconds: number;
}

/** The least width at which sorting all of them makes at most so many. */
function sortedWithin(objects: readonly LevelObject[], most: number): Cut | null {
  const widthSeconds = widths.find((width) => bucketsTouched(objects, width, most) <= most);
  return widthSeconds === undefined ? null : { objects, widthSeconds };
}

/**
 * The least width at which joining leaves at most so many, or else the widest that joins any; and those that are joined
 * then. One in several buckets, or alone in its own, stays as it is: it waits for others.
 */
function joinedWithin(objects: readonly LevelObject[], most: number): Cut | null {
  let widest: Cut | null = null;
  for (const widthSeconds of widths) {
    const joined = groupsToJoin(objects, widthSeconds);
    const cut = { objects: joined.flat(), widthSeconds };
    if (joined.length > 0 && objects.length - cut.objects.length + joined.length <= most) {
      return cut;
    }
    widest = joined.length > 0 ? cut : widest;
  }
  return widest;
}

/** Whether sorted objects of such sizes are joined rather than sorted again. */
export function areJoined(objects: readonly Pick<LevelObject, "rowCount">[]): boolean {
  return objects.reduce((sum, { rowCount }) => sum + rowCount, 0) >= objects.length * joinRows;
}

type Times = Pick<LevelObject, "minTimeNs" | "maxTimeNs">;

/** Objects that are joined with each other: two or more whose rows are all in one bucket. */
export function groupsToJoin<T extends Times>(objects: readonly T[], widthSeconds: number): T[][] {
  const buckets = new Map<bigint, T[]>();
  for (const object of objects) {
    const bucket = bucketWithin(object, widthSeconds);
    if (bucket !== null) {
      const group = buckets.get(bucket);
      if (group === undefined) {
        buckets.set(bucket, [object]);
      } else {
        group.push(object);
      }
    }
  }
  return [...buckets.values()].filter((group) => group.length > 1);
}

/** The bucket that all rows of an object are in; null when they are in several, or have no time. */
export function bucketWithin({ minTimeNs, maxTimeNs }: Times, widthSeconds: number): bigint | null {
  if (minTimeNs === null || maxTimeNs === null) {
    return null;
  }
  const widthNs = BigInt(widthSeconds) * nsPerSecond;
  const first = bucketOf(minTimeNs, widthNs);
  return first === bucketOf(maxTimeNs, widthNs) ? first : null;
}

function sumOf(a: LevelCounts, b: LevelCounts): LevelCounts {
  return { objects: a.objects + b.objects, rows: a.rows + b.rows, bytes: a.bytes + b.bytes };
}

function fitsInto(room: MergeRoom, { objects, rows, bytes }: LevelCounts): boolean {
  return objects <= maxSources && rows <= room.rows && bytes <= room.bytes;
}

/** The largest one, or else others would be preferred for ever, and the first ones that there is room for beside it. */
function withinRoom(objects: readonly LevelObject[], room: MergeRoom): readonly LevelObject[] {
  const largest = objects.reduce<LevelObject | null>(
    (most, object) => (most === null || object.rowCount > most.rowCount ? object : most),
    null,
  );
  let rows = largest?.rowCount ?? 0;
  let bytes = largest?.fileBytes ?? 0;
  return objects.slice(0, maxSources).filter((object) => {
    if (object === largest) {
      return true;
    }
    if (rows + object.rowCount > room.rows || bytes + object.fileBytes > room.bytes) {
      return false;
    }
    rows += object.rowCount;
    bytes += object.fileBytes;
    return true;
  });
}

/** Into how many buckets the rows may fall, as far as the bounds tell; beyond `most` it stops counting. */
function bucketsTouched(objects: readonly LevelObject[], widthSeconds: number, most: number): number {
  const widthNs = BigInt(widthSeconds) * nsPerSecond;
  const touched = new Set<bigint>();
  for (const { minTimeNs, maxTimeNs } of objects) {
    if (minTimeNs === null || maxTimeNs === null) {
      continue;
    }
    const last = bucketOf(maxTimeNs, widthNs);
    for (let bucket = bucketOf(minTimeNs, widthNs); bucket <= last; bucket++) {
      touched.add(bucket);
      if (touched.size > most) {
        return touched.size;
      }
    }
  }
  return touched.size;
}

/** `/` cuts towards zero, and times before 1970 are negative. */
function bucketOf(ns: bigint, widthNs: bigint): bigint {
  return ns >= 0n ? ns / widthNs : (ns + 1n) / widthNs - 1n;
}
