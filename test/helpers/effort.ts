/** How much a test tries: little of it in the main suite, and more in `pnpm test:long`, which continuous integration runs. */

const long = process.env["TEST_LONG"] === "1";

/** All of them in `pnpm test:long`, else `count`, from the first to the last. */
export function sampled<T>(all: readonly T[], count: number): readonly T[] {
  return long
    ? all
    : Array.from({ length: count }, (_, i) => all[Math.round((i * (all.length - 1)) / (count - 1))] as T);
}

/** `much` in `pnpm test:long`, else `little`. */
export function effort(little: number, much: number): number {
  return long ? much : little;
}
