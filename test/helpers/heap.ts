/** How much memory is in use, exactly. */
import v8 from "node:v8";
import vm from "node:vm";

/** A full collection of this thread's heap, which V8 offers to contexts that are made after the flag is set. */
export function collectGarbage(): void {
  v8.setFlagsFromString("--expose-gc");
  const collect = vm.runInNewContext("gc") as () => void;
  v8.setFlagsFromString("--no-expose-gc");
  collect();
}

/** Bytes of this thread's heap after a full collection. */
export function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
