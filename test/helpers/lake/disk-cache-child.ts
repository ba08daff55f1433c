/** Fills a cache of files and kills itself at a point: directory, content, the point, and at which of its times. */
import { createCacheCounts } from "../../../src/lake/cache/cache-counts.js";
import { DiskCache } from "../../../src/lake/cache/disk-cache.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { wantedText } from "./disk-cache-text.js";
import { watchFiles } from "./file-points.js";
import { killAt } from "./kill-at.js";

const [directory = "", content = "", point = "", nth = ""] = process.argv.slice(2);
const at = killAt(point, Number(nth));
watchFiles((reached) => void at(reached));
const cache = await DiskCache.open(directory, 1 << 20, createCacheCounts(createMetrics()));
const wanted = ["a", "b"].map((key) => wantedText(key, content, at));
(await cache.hold(wanted, new AbortController().signal)).release(false);
await at("held");
