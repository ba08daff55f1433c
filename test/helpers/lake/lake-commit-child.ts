/** Commits a batch and kills itself at a point: connection string, store, the batch as JSON, the point, and which time. */
import { connect } from "../../../src/db/sql.js";
import { openObjectStore } from "../../../src/lake/store/open-store.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { watchFiles } from "./file-points.js";
import { killAt } from "./kill-at.js";
import { commitLogs, type SentLogs } from "./lake-commit.js";

const [connectionString = "", uri = "", sent = "", point = "", nth = ""] = process.argv.slice(2);
const at = killAt(point, Number(nth));
const sql = connect({
  connectionString,
  maxConnections: 1,
  applicationName: "commit-child",
  logger: createSilentLogger(),
});
const store = await openObjectStore(uri);
watchFiles((reached) => void at(reached));
await commitLogs(sql, store, JSON.parse(sent) as SentLogs[], at);
await sql.end({ timeout: 5 });
