/**
 * The memory that bodies of requests wait in, and how much of it each audience holds.
 *
 * An audience that holds four times as much as is free gets no more (a dynamic threshold: Choudhury and Hahne, "Dynamic
 * queue length thresholds", 1998). So one whose senders overload the server fills four fifths of it, two of them four
 * ninths each, and there is room for the others.
 */
import type { Arena } from "../../runtime/threads/arena.js";

const timesFree = 4;

/** See the head of this file. Belongs to the thread that owns the arena. */
export class BodyMemory {
  readonly arena: Arena;
  readonly #held = new Map<string | null, number>();

  constructor(arena: Arena) {
    this.arena = arena;
  }

  /**
   * Whether `bytes` more may come in. A body alone may have all that is free.
   * @param own bytes that the same body holds already
   */
  admits(audience: string | null, bytes: number, own: number): boolean {
    const left = this.arena.sizeBytes - this.arena.usedBytes - bytes;
    return left >= 0 && (this.#held.get(audience) ?? 0) - own <= timesFree * left;
  }

  /** An audience holds so many bytes more; fewer when it is negative. */
  hold(audience: string | null, bytes: number): void {
    const held = (this.#held.get(audience) ?? 0) + bytes;
    if (held === 0) {
      this.#held.delete(audience);
    } else {
      this.#held.set(audience, held);
    }
  }
}
