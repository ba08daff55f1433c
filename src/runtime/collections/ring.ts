/**
 * A bounded first-in, first-out queue in a ring. It allocates when it has to grow (doubling, up to
 * its capacity) and never per item. An item that was taken is let go of at once; the queues of mnemonist hold it
 * until its slot is written again.
 */
export class Ring<T> {
  /** Most items that can wait. */
  readonly capacity: number;
  #slots: (T | undefined)[];
  #mask: number;
  #head = 0;
  #size = 0;

  constructor(capacity: number) {
    if (!(capacity >= 1)) {
      throw new RangeError(`a queue takes at least one item, got ${capacity}`);
    }
    this.capacity = capacity;
    const slots = capacity < 16 ? 16 : 64;
    this.#slots = Array.from({ length: slots }, () => undefined);
    this.#mask = slots - 1;
  }

  /** Items that wait. */
  get size(): number {
    return this.#size;
  }

  /** Appends an item; returns false when the queue is full. */
  push(item: T): boolean {
    if (this.#size >= this.capacity) {
      return false;
    }
    if (this.#size > this.#mask) {
      this.#grow();
    }
    this.#slots[(this.#head + this.#size) & this.#mask] = item;
    this.#size++;
    return true;
  }

  /**
   * Removes and returns the oldest item.
   * @throws RangeError when the queue is empty.
   */
  take(): T {
    if (this.#size === 0) {
      throw new RangeError("the queue is empty");
    }
    const item = this.#slots[this.#head] as T;
    this.#slots[this.#head] = undefined; // a slot must not keep the item alive
    this.#head = (this.#head + 1) & this.#mask;
    this.#size--;
    return item;
  }

  /** Removes and returns the oldest items, at most `most`. */
  takeMany(most: number): T[] {
    const count = Math.min(most, this.#size);
    const items: T[] = [];
    for (let i = 0; i < count; i++) {
      items.push(this.take());
    }
    return items;
  }

  /** Removes the first item that is `item`; returns whether there was one. Walks the queue. */
  remove(item: T): boolean {
    for (let i = 0; i < this.#size; i++) {
      if (this.#slots[(this.#head + i) & this.#mask] !== item) {
        continue;
      }
      for (let j = i; j + 1 < this.#size; j++) {
        this.#slots[(this.#head + j) & this.#mask] = this.#slots[(this.#head + j + 1) & this.#mask];
      }
      this.#size--;
      this.#slots[(this.#head + this.#size) & this.#mask] = undefined;
      return true;
    }
    return false;
  }

  #grow(): void {
    const old = this.#slots;
    const oldMask = this.#mask;
    const slots: (T | undefined)[] = [];
    for (let i = 0; i < old.length; i++) {
      slots.push(old[(this.#head + i) & oldMask]);
    }
    for (let i = old.length; i < old.length * 2; i++) {
      slots.push(undefined);
    }
    this.#slots = slots;
    this.#mask = slots.length - 1;
    this.#head = 0;
  }
}
