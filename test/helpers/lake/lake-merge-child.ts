/** A process that merges everything in a lake, so that it can be killed: connection string, store, temp directory. */
import { fileURLToPath } from "node:url";

import { connect } from "../../../src/db/sql.js";
import { mergePartitions } from "../../../src/lake/merge/merge.js";
import { openObjectStore } from "../../../src/lake/store/open-store.js";
import { systemClock } from "../../../src/runtime/clock.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { mergeLimits } from "./lake-merge-limits.js";

const [connectionString = "", uri = "", tempDirectory = ""] = process.argv.slice(2);
const sql = connect({
  connectionString,
  maxConnections: 2,
  applicationName: "merge-child",
  logger: createSilentLogger(),
});
await mergePartitions(
  {
    sql,
    store: await openObjectStore(uri),
    root: fileURLToPath(uri),
    limits: mergeLimits(tempDirectory),
    clock: systemClock,
    cancelled: () => false,
  },
  {
    viewSet: "log_entries",
    audiences: { kind: "all" },
    beginNs: 0n,
    endNs: 2n ** 62n,
    widthSeconds: 3600,
    regenerate: false,
  },
);
await sql.end({ timeout: 5 });
