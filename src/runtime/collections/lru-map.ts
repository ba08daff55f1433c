/**
 * mnemonist's map of the entries that were used last. The package's index loads all of its ninety modules, a tenth of what
 * a server loads in each process and thread, and only `require` reaches one alone.
 */
import { createRequire } from "node:module";

import type { LRUMap as OfPackage } from "mnemonist";

/** Forgets the entry that was used longest ago when it is full. */
export type LRUMap<K, V> = OfPackage<K, V>;
export const LRUMap = createRequire(import.meta.url)("mnemonist/lru-map") as typeof OfPackage;
