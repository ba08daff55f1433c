/**
 * What the two threads of an engine share: one reads what the server says, the other runs a job without
 * ever returning to its event loop. Credits, interrupts, and the connection to interrupt.
 */
import type { Pointer } from "./library.js";

const interruptedWord = 0;
const creditsWord = 1;
const lockWord = 2;
const runningWord = 3;

/** Shared by construction from the same memory. */
export class JobControl {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array;
  /** Behind the words; read and written under the lock. */
  readonly #connection: Float64Array;

  constructor(memory = new SharedArrayBuffer(24)) {
    this.memory = memory;
    this.#words = new Int32Array(memory, 0, 4);
    this.#connection = new Float64Array(memory, 16, 1);
  }

  /** A job begins: what was said to the one before is forgotten. */
  reset(): void {
    Atomics.store(this.#words, creditsWord, 0);
    Atomics.store(this.#words, interruptedWord, 0);
    Atomics.store(this.#words, runningWord, 1);
  }

  /** The job has ended. */
  ended(): void {
    Atomics.store(this.#words, runningWord, 0);
  }

  /** Whether a job is to be run, or runs. */
  get running(): boolean {
    return Atomics.load(this.#words, runningWord) !== 0;
  }

  /** Allows this many more messages. */
  addCredits(count: number): void {
    Atomics.add(this.#words, creditsWord, count);
    Atomics.notify(this.#words, creditsWord);
  }

  /**
   * Gives the job up. An interrupt between two statements is lost, as is a wake-up before somebody sleeps: call it
   * again until the job has ended.
   * @param interrupt is called with the connection while it cannot be closed
   */
  interrupt(interrupt: (connection: Pointer) => void): void {
    Atomics.store(this.#words, interruptedWord, 1);
    this.#locked(() => {
      const connection = this.#connection[0] ?? 0;
      if (connection !== 0) {
        interrupt(connection);
      }
    });
    Atomics.notify(this.#words, creditsWord);
  }

  get interrupted(): boolean {
    return Atomics.load(this.#words, interruptedWord) !== 0;
  }

  /** Waits for a credit and takes it. @returns false when the job has been given up */
  takeCredit(): boolean {
    while (!this.interrupted) {
      const credits = Atomics.load(this.#words, creditsWord);
      if (credits === 0) {
        Atomics.wait(this.#words, creditsWord, 0);
      } else if (this.#exchange(credits, credits - 1)) {
        return true;
      }
    }
    return false;
  }

  /** Waits until there are so many credits, or the job has been given up. */
  awaitCredits(count: number): void {
    for (;;) {
      const credits = Atomics.load(this.#words, creditsWord);
      if (credits >= count || this.interrupted) {
        return;
      }
      Atomics.wait(this.#words, creditsWord, credits);
    }
  }

  /** Names the connection that an interrupt is for; 0: none, and the previous one may be closed. */
  serve(connection: Pointer): void {
    this.#locked(() => {
      this.#connection[0] = connection;
    });
  }

  #exchange(from: number, to: number): boolean {
    return Atomics.compareExchange(this.#words, creditsWord, from, to) === from;
  }

  #locked(work: () => void): void {
    while (Atomics.compareExchange(this.#words, lockWord, 0, 1) !== 0) {
      Atomics.wait(this.#words, lockWord, 1);
    }
    try {
      work();
    } finally {
      Atomics.store(this.#words, lockWord, 0);
      Atomics.notify(this.#words, lockWord);
    }
  }
}
