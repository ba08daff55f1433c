/** What maintenance decides to merge, played through in memory: how many objects remain, how often a row is written. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";

import { chooseObjects, dueLevels, joinRoom, type LevelObject } from "../../src/lake/merge/merge-levels.js";
import { stepLimitsFor } from "../../src/lake/merge/merge-plan.js";
import { effort } from "../helpers/effort.js";
import { mostWaiting, SimulatedCatalogue } from "../helpers/lake/simulated-catalogue.js";

const room = stepLimitsFor(512 << 20);
const second = 1_000_000_000n;
const noon = 1_763_726_400;
const hour = 3600;
const day = 24 * hour;

/** A sender for a while: objects a second, rows of each, and how late their rows are. */
interface Phase {
  readonly seconds: number;
  readonly perSecond: number;
  readonly rows: number;
  readonly lateSeconds: number;
}

/**
 * Most rows a second. Up to 141 objects wait, and whole ones of level 3 have 62 million rows: of a million rows a second
 * they are 58 an hour. Of late rows a merge makes one for each day.
 */
const mostRows = { inTime: 1_000_000, late: 200_000 };

const phases: fc.Arbitrary<Phase[]> = fc.array(
  fc
    .record({
      seconds: fc.integer({ min: 1, max: 2 * hour }),
      perSecond: fc.oneof(fc.double({ min: 0, max: 0.2, noNaN: true }), fc.double({ min: 0.2, max: 12, noNaN: true })),
      rows: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 150_000 })),
      lateSeconds: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2 * day })),
    })
    .map((phase) => {
      const most = phase.lateSeconds === 0 ? mostRows.inTime : mostRows.late;
      return { ...phase, rows: Math.min(phase.rows, Math.floor(most / Math.max(1, phase.perSecond))) };
    }),
  { minLength: 1, maxLength: 6 },
);

/** Plays phases through; every second maintenance merges until nothing is due, and then `each` is called. */
function play(catalogue: SimulatedCatalogue, script: readonly Phase[], each: (nowSeconds: number) => void): void {
  let now = noon;
  for (const { seconds, perSecond, rows, lateSeconds } of script) {
    let owed = 0;
    for (let i = 0; i < seconds; i++, now++) {
      owed += perSecond;
      const arrived = Math.floor(owed);
      owed -= arrived;
      for (let n = 0; n < arrived; n++) {
        const late = lateSeconds === 0 ? 0 : (n * 7919 + i) % lateSeconds;
        const lastNs = BigInt(now - late) * second;
        catalogue.add(now, rows, [lastNs - second, lastNs]);
      }
      catalogue.mergeAll(now);
      each(now);
    }
  }
}

it("keeps few objects, writes no row more than twice beyond level 0, and stores each once", () => {
  fc.assert(
    fc.property(phases, (script) => {
      const catalogue = new SimulatedCatalogue(room);
      let most = 0;
      play(catalogue, script, (now) => {
        for (const level of [0, 1, 2] as const) {
          expect(catalogue.waiting(level)).toBeLessThanOrEqual(mostWaiting[level] ?? 0);
        }
        most = now % 97 === 0 ? Math.max(most, catalogue.opened(now - hour)) : most;
      });
      expect(most).toBeLessThan(200);
      catalogue.checkRows();
      const [, first = 0, second_ = 0, third = 0] = catalogue.rowsWritten;
      expect(first).toBeLessThanOrEqual(catalogue.rowsArrived);
      expect(second_ + third).toBeLessThanOrEqual(2 * catalogue.rowsArrived);
      expect(third).toBeLessThanOrEqual(second_);
    }),
    { numRuns: effort(4, 30) },
  );
}, 600_000);

it("leaves at most 30 objects of a client that sends every ten seconds for a day, and few all along", () => {
  const catalogue = new SimulatedCatalogue(room);
  let most = 0;
  const script = [
    { seconds: day, perSecond: 0.1, rows: 3, lateSeconds: 0 },
    { seconds: hour, perSecond: 0, rows: 1, lateSeconds: 0 },
  ];
  play(catalogue, script, (now) => {
    most = now % 61 === 0 ? Math.max(most, catalogue.opened(now - hour)) : most;
  });
  expect(most).toBeLessThan(200);
  expect(catalogue.objects).toBeLessThanOrEqual(7);
  expect(catalogue.merges).toBeLessThan(150);
  const [, first = 0, again = 0, third = 0] = catalogue.rowsWritten;
  expect((first + again + third) / catalogue.rowsArrived).toBeLessThanOrEqual(2);
  catalogue.checkRows();
});

it("leaves at most 40 objects two minutes after 300 small requests, however fast they came", () => {
  for (const perSecond of [0.05, 0.5, 1, 2, 4.2, 30]) {
    const catalogue = new SimulatedCatalogue(room);
    const seconds = Math.ceil(300 / perSecond);
    let at = noon;
    for (let sent = 0; at <= noon + seconds + 120; at++) {
      for (; sent < Math.min(300, (at - noon) * perSecond); sent++) {
        catalogue.add(at, 3, [BigInt(at) * second]);
      }
      // Maintenance looks as often.
      if (at % 30 === 7) {
        catalogue.mergeAll(at);
      }
    }
    expect(catalogue.objects, `${perSecond} a second`).toBeLessThanOrEqual(40);
    catalogue.checkRows();
  }
});

it("leaves below a tenth of 2,000 objects of three days in which every second made an object of level 1", () => {
  const catalogue = new SimulatedCatalogue(room);
  for (let i = 0; i < 3 * day; i++) {
    const timeNs = BigInt(noon + i) * second;
    catalogue.add(noon + i, 100, [timeNs], 1);
    catalogue.mergeAll(noon + i);
  }
  // What waits is there once, however long it lasts.
  const waiting = catalogue.waiting(1) + catalogue.waiting(2);
  expect(waiting).toBeLessThan(80);
  expect((catalogue.objects - waiting) * 10 + 80).toBeLessThan(2000);
  expect(catalogue.opened(noon + 3 * day - hour)).toBeLessThan(100);
}, 120_000);

it("copies the rows of large objects once or twice after they were sorted", () => {
  const catalogue = new SimulatedCatalogue(room);
  let most = 0;
  // 27,000 rows, 30 times a second: what two cores take in.
  play(catalogue, [{ seconds: 1800, perSecond: 30, rows: 27_000, lateSeconds: 0 }], (now) => {
    most = now % 97 === 0 ? Math.max(most, catalogue.opened(now - hour)) : most;
  });
  expect(most).toBeLessThan(200);
  const [, sorted = 0, ...copied] = catalogue.rowsWritten;
  expect(sorted).toBeLessThanOrEqual(catalogue.rowsArrived);
  expect(copied.reduce((sum, rows) => sum + rows, 0)).toBeLessThanOrEqual(2 * catalogue.rowsArrived);
  catalogue.checkRows();
});

it("ends, whatever is late", () => {
  const catalogue = new SimulatedCatalogue(room);
  const script = [
    { seconds: 5558, perSecond: 1.2, rows: 92_154, lateSeconds: 170_470 },
    { seconds: 1232, perSecond: 10.9, rows: 54_964, lateSeconds: 94_481 },
    { seconds: 300, perSecond: 3.8, rows: 11, lateSeconds: 43_298 },
  ];
  play(catalogue, script, () => undefined);
  catalogue.checkRows();
  expect(catalogue.objects).toBeLessThan(1000);
});

describe("a level is due", () => {
  const empty = { objects: 0, rows: 0, bytes: 0 };
  const some = (objects: number, rows: number) => ({ objects, rows: objects * rows, bytes: objects * rows * 60 });

  it("with enough objects, or enough rows for a whole one", () => {
    const due = (...levels: [typeof empty, typeof empty, typeof empty]) => dueLevels({ levels, quietSeconds: 0 }, room);
    expect(due(some(63, 3), some(31, 100), some(47, 1000))).toBeNull();
    expect(due(some(64, 3), some(31, 100), empty)).toEqual([0]);
    expect(due(some(10, 27_000), empty, empty)).toEqual([0]);
    expect(due(some(1, 300_000), empty, empty)).toEqual([0]);
    expect(due(some(64, 3), some(32, 100), empty)).toEqual([1]);
    expect(due(empty, some(31, 260_000), some(5, joinRoom.rows / 4))).toEqual([2]);
  });

  it("with what is left when nothing arrives any more", () => {
    const due = (quietSeconds: number, fresh: typeof empty, once: typeof empty) =>
      dueLevels({ levels: [fresh, once, some(40, 1000)], quietSeconds }, room);
    expect(due(59, some(20, 3), some(20, 100))).toBeNull();
    expect(due(60, some(20, 3), some(20, 100))).toEqual([0, 1]);
    expect(due(60, some(8, 3), some(8, 100))).toEqual([0, 1]);
    expect(due(1199, some(8, 3), some(7, 100))).toBeNull();
    expect(due(1200, some(1, 3), some(3, 100))).toEqual([0, 1]);
    expect(due(1200, some(1, 3), some(2, 100))).toBeNull();
    expect(due(1200, some(3, 3), some(20, 200_000))).toEqual([1]);
    expect(due(1200, some(9, 3), some(20, 200_000))).toEqual([0]);
  });
});

describe("a merge", () => {
  const objects = (count: number, o: (i: number) => Partial<LevelObject>): LevelObject[] =>
    Array.from({ length: count }, (_, i) => ({
      partitionId: String(i),
      level: 0,
      rowCount: 3,
      fileBytes: 1000,
      minTimeNs: BigInt(noon) * second,
      maxTimeNs: BigInt(noon) * second,
      ...o(i),
    }));

  it("takes no more rows than it can sort, but joins many more", () => {
    const large = (level: 0 | 1) => objects(100, () => ({ level, rowCount: 100_000 }));
    expect(chooseObjects(large(0), room)).toMatchObject({ partitionIds: ["0", "1"], level: 1 });
    expect(chooseObjects(large(1), room)?.partitionIds).toHaveLength(100);
  });

  it("takes an object that has no room at all by itself, to sort it", () => {
    const huge = objects(2, () => ({ rowCount: 1_000_000 }));
    expect(chooseObjects(huge, room)?.partitionIds).toEqual(["0"]);
    expect(
      chooseObjects(
        huge.map((object) => ({ ...object, level: 1 as const })),
        room,
      )?.level,
    ).toBe(2);
  });

  it("cuts by the day where objects of a day are many, and by more where they are few", () => {
    const days = (perObject: number) => (i: number) => {
      const timeNs = BigInt(noon + Math.floor(i * perObject * day)) * second;
      return { minTimeNs: timeNs, maxTimeNs: timeNs };
    };
    expect(chooseObjects(objects(40, days(0.2)), room)?.widthSeconds).toBe(day);
    expect(chooseObjects(objects(40, days(1)), room)?.widthSeconds).toBe(32 * day);
    expect(chooseObjects(objects(40, days(-300)), room)?.widthSeconds).toBe(2 ** 31 - 1);
  });

  it("joins objects that span midnight, too, and leaves none over that is named", () => {
    const late = objects(12, (i) => ({
      level: 2,
      rowCount: 1_000_000,
      minTimeNs: BigInt(noon - (i % 3) * day) * second,
      maxTimeNs: BigInt(noon + day - i) * second,
    }));
    expect(chooseObjects(late, room)).toMatchObject({ widthSeconds: 32 * day, level: 3 });
    // One of them is of another year.
    const [first, ...others] = late;
    const old = { ...first, minTimeNs: second, maxTimeNs: 2n * second } as LevelObject;
    expect(chooseObjects([old, ...others], room)?.partitionIds).toEqual(others.map(({ partitionId }) => partitionId));
  });

  it("waits where it would make as many objects as it takes", () => {
    const whole = () => ({ minTimeNs: -(2n ** 63n) + 1n, maxTimeNs: 2n ** 63n - 1n });
    expect(chooseObjects(objects(35, whole), room)).toBeNull();
    expect(chooseObjects(objects(48, whole), room)?.partitionIds).toHaveLength(48);
  });

  it("takes objects without any time along", () => {
    const timeless = objects(64, () => ({ minTimeNs: null, maxTimeNs: null }));
    expect(chooseObjects(timeless, room)?.partitionIds).toHaveLength(64);
  });
});
