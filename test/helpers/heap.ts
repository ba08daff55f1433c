/** How much memory is in use, exactly. */
import v8 from "node:v8";
import vm from "node:vm";

/**
 * Bytes of this thread's heap after a full collection, which V8 offers to contexts that are made after the flag is set.
 */
export function heapBytes(): number {
  v8.setFlagsFromString("--expose-gc");
  const collect = vm.runInNewContext("gc") as () => void;
  v8.setFlagsFromString("--no-expose-gc");
  collect();
  return process.memoryUsage().heapUsed;
}
