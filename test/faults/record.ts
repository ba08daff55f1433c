/** What was done to whom, and when. */

/** Stands for the database among those that faults happen to; the others are named as their places are. */
export const database = "Postgres";
/** Stands for the server of objects. */
export const objectServer = "server of objects";

export interface FaultRecord {
  /** Kinds of faults, and how many there were. */
  readonly kinds: ReadonlyMap<string, number>;
  /** Processes killed so far. */
  readonly kills: number;
  /** Notes a fault that begins now. @returns to be called when it is over; what it left may be felt for longer */
  begin(kind: string, whom: string): () => void;
  /** A fault that was not over at a time of `performance.now()`, of the first of these that has one; null: none has. */
  since(whom: readonly string[], sinceMs: number): string | null;
}

interface Fault {
  readonly kind: string;
  overMs: number;
}

export function createFaultRecord(): FaultRecord {
  const kinds = new Map<string, number>();
  const faults = new Map<string, Fault[]>();
  let kills = 0;
  return {
    kinds,
    get kills() {
      return kills;
    },
    begin(kind, whom) {
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      kills += kind.includes("killed") || whom === database ? 1 : 0;
      const fault = { kind, overMs: Number.POSITIVE_INFINITY };
      faults.set(whom, [...(faults.get(whom) ?? []), fault]);
      return () => {
        fault.overMs = performance.now();
      };
    },
    since(whom, sinceMs) {
      const found = whom.map((name) => faults.get(name)?.findLast(({ overMs }) => overMs >= sinceMs));
      return found.find((fault) => fault !== undefined)?.kind ?? null;
    },
  };
}
