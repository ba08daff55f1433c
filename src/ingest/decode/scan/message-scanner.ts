/**
 * Messages of OTLP read by WebAssembly (assembly/scan.ts), in a small memory of its own: a window of the request in, and
 * text out, which is staged there and copied to its columns when there is enough of it. What that saves is in
 * docs/performance.md.
 *
 * A column counts staged bytes in `byteLength` as its own, so that callers finish and take back values as ever. Whoever
 * writes to such a column or reads it calls {@link MessageScanner.flush} before.
 */
import { readFileSync } from "node:fs";

import type { Utf8Column } from "../../../lake/tables/columns.js";
import { ServiceError } from "../../../runtime/errors.js";
import { writeDouble } from "../numbers.js";
import { planBytes, plans, type ScanPlan } from "./plan.js";

// Where things are in memory; assembly/scan.ts says the same.
const fieldsAt = 1024;
const fieldWords = 64;
const cursorsAt = 2048;
const elementsAt = 2560;
const mostElements = 64;
const plansAt = 4096;
const windowAt = 16 * 1024;
const stagesAt = 64 * 1024;

/** Longest message that is taken: its text may grow sixfold, and a rest. */
const windowBytes = 32 * 1024;
/** Depth that a message may reach which is taken: a point's own, its attribute, and eight lists of lists of attributes. */
const deepest = 5 + 2 + 8 * 3;
const stageBytes = 256 * 1024;
/** A column with so many staged bytes is copied. */
const enough = stageBytes - 6 * windowBytes - 1024;
const mostColumns = 16;
const pageBytes = 64 * 1024;
const pages = (stagesAt + mostColumns * stageBytes) / pageBytes;

/** The first of the fields that hold where a text is in the request. */
const firstRange = 16;

/** What is used of it: neither the language's library nor Node's types have it. */
interface Assembler {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Memory: new (size: { readonly initial: number; readonly maximum: number }) => {
    readonly buffer: ArrayBuffer;
  };
  readonly Instance: new (
    module: object,
    imports: Record<string, Record<string, unknown>>,
  ) => { readonly exports: Record<string, unknown> };
}
const { WebAssembly } = globalThis as unknown as { readonly WebAssembly: Assembler };

const none: readonly Utf8Column[] = [];

const compiled = new WebAssembly.Module(readFileSync(new URL("assembly/scan.wasm", import.meta.url)));

/** The memory is small; V8 reserves 10 GiB around it, so that it need not check bounds. */
function allocate(): InstanceType<Assembler["Memory"]> {
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages });
  } catch (cause) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "the system gives no address space for WebAssembly, which reserves 10 GiB for each thread that decodes: lift the limit (ulimit -v)",
      { cause },
    );
  }
}

/** Index in {@link MessageScanner.fields} of where the text of a column starts; it ends at the next one. */
export function rangeOf(column: number): number {
  return 2 * (firstRange + column);
}

/** Places in memory; `offset` leads from there to the request. @returns the number of elements, -1 when it gave up. */
type Scan = (plan: number, start: number, end: number, offset: number) => number;

/** See the head of this file. */
export class MessageScanner {
  /** Numbers of the last message, a low and a high word each; 0 where there is none. */
  readonly fields: Int32Array;
  /** Of each element of a list in the last message: the list, and where the element starts and ends in the request. */
  readonly elements: Int32Array;
  /** How many elements there are. */
  elementCount = 0;
  readonly #memory: Uint8Array;
  readonly #cursors: Int32Array;
  readonly #scan: Scan;
  readonly #longest: number;
  #plans = 0;
  /** The request, and which part of it is in the window. */
  #request: Uint8Array = new Uint8Array(0);
  #requestEnd = 0;
  #windowStart = 0;
  #windowEnd = 0;
  /** Columns with staged text, and how long each was before. */
  #columns: readonly Utf8Column[] = none;
  /** Length of the first column, that of attributes, behind the last message. */
  #length = 0;
  readonly #origins = new Int32Array(mostColumns);

  /**
   * @param maxDepth how deep messages may nest. It takes none when it would not notice a deeper one.
   * @throws ServiceError NOT_CONFIGURED without address space for its memory
   */
  constructor(maxDepth: number) {
    this.#longest = maxDepth < deepest ? 0 : windowBytes;
    const memory = allocate();
    const bytes = new Uint8Array(memory.buffer);
    this.#memory = bytes;
    this.fields = new Int32Array(memory.buffer, fieldsAt, fieldWords);
    this.elements = new Int32Array(memory.buffer, elementsAt, 3 * mostElements);
    this.#cursors = new Int32Array(memory.buffer, cursorsAt, mostColumns);
    const { exports } = new WebAssembly.Instance(compiled, {
      env: { memory },
      scan: { writeDouble: (at: number, value: number) => writeDouble(bytes, at, value) },
    });
    this.#scan = exports["scan"] as Scan;
  }

  /** Takes a request that ends at `end` of `bytes`. Nothing of it is read later than the next call of this. */
  begin(bytes: Uint8Array, end: number): void {
    this.#request = bytes;
    this.#requestEnd = end;
    this.#windowStart = 0;
    this.#windowEnd = 0;
  }

  /**
   * Reads the message at `[start, end)` of the request: its numbers to {@link fields}, its texts to the unfinished values
   * of `columns`, the first of which takes attributes.
   * @returns whether it did. If not, the columns are as before, flushed, and fields are 0.
   */
  scan(plan: ScanPlan, columns: readonly Utf8Column[], start: number, end: number): boolean {
    if ((start >= this.#windowStart && end <= this.#windowEnd) || this.#load(start, end)) {
      if (columns !== this.#columns || !this.#setCursors()) {
        this.#adopt(columns);
      }
      if (plan.index >= this.#plans) {
        this.#addPlans();
      }
      const offset = windowAt - this.#windowStart;
      const elements = this.#scan(plan.index, start + offset, end + offset, -offset);
      if (elements >= 0) {
        this.elementCount = elements;
        this.#takeCursors();
        return true;
      }
    }
    this.flush();
    this.fields.fill(0);
    this.elementCount = 0;
    return false;
  }

  /** Copies staged text to its columns. */
  flush(): void {
    const columns = this.#columns;
    for (let index = 0; index < columns.length; index++) {
      const column = columns[index]!;
      const origin = this.#origins[index]!;
      const count = column.byteLength - origin;
      if (count > 0) {
        column.byteLength = origin;
        column.reserve(count);
        const from = stagesAt + index * stageBytes;
        column.bytes.set(this.#memory.subarray(from, from + count), origin);
        column.byteLength = origin + count;
      }
    }
    this.#columns = none;
  }

  /** Moves the window to a message. @returns false when it is too long. */
  #load(start: number, end: number): boolean {
    if (end - start > this.#longest) {
      return false;
    }
    this.#windowStart = start;
    this.#windowEnd = Math.min(this.#requestEnd, start + this.#longest);
    this.#memory.set(this.#request.subarray(start, this.#windowEnd), windowAt);
    return true;
  }

  #adopt(columns: readonly Utf8Column[]): void {
    this.flush();
    for (let index = 0; index < columns.length; index++) {
      this.#origins[index] = columns[index]!.byteLength;
      this.#cursors[index] = stagesAt + index * stageBytes;
    }
    this.#columns = columns;
    this.#length = columns[0]!.byteLength;
  }

  /**
   * Takes back what callers took back since the last message; each has written attributes, so one column tells.
   * @returns false when more than what is staged was taken back.
   */
  #setCursors(): boolean {
    const columns = this.#columns;
    if (columns[0]!.byteLength === this.#length) {
      return true;
    }
    for (let index = 0; index < columns.length; index++) {
      const staged = columns[index]!.byteLength - this.#origins[index]!;
      if (staged < 0) {
        return false;
      }
      this.#cursors[index] = stagesAt + index * stageBytes + staged;
    }
    return true;
  }

  #takeCursors(): void {
    const columns = this.#columns;
    let most = 0;
    for (let index = 0; index < columns.length; index++) {
      const staged = this.#cursors[index]! - stagesAt - index * stageBytes;
      columns[index]!.byteLength = this.#origins[index]! + staged;
      most = Math.max(most, staged);
    }
    this.#length = columns[0]!.byteLength;
    if (most > enough) {
      this.flush();
    }
  }

  #addPlans(): void {
    for (const { index, bytes } of plans) {
      this.#memory.set(bytes, plansAt + index * planBytes);
    }
    this.#plans = plans.length;
  }
}
