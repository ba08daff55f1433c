/**
 * A process of its own for the tests of the database: what only shows across processes (migrating at the
 * same time, being killed) needs real ones. Run as
 *
 *     node db-child.js migrate <connection string> [folder of migrations]
 *     node db-child.js embedded <data directory>
 *
 * It prints one line of JSON when it is done or ready; `embedded` then runs until it is killed, and stops
 * the database cleanly when its standard input ends.
 */
import { startEmbeddedPostgres } from "../../../src/db/embedded/embedded.js";
import { migrate } from "../../../src/db/migrations.js";
import { connect } from "../../../src/db/sql.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";

const [command, target, directory] = process.argv.slice(2);
const logger = createSilentLogger();

function print(answer: object): void {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

if (target === undefined) {
  throw new Error("usage: db-child.js migrate|embedded <target>");
}
try {
  if (command === "migrate") {
    const sql = connect({
      connectionString: target,
      maxConnections: 2,
      applicationName: "test-child",
      logger,
    });
    print(await migrate(sql, logger, directory === undefined ? {} : { directory: new URL(directory) }));
    await sql.end({ timeout: 5 });
  } else {
    const cluster = await startEmbeddedPostgres({ dataDirectory: target, logger, durable: false });
    print({ connectionString: cluster.connectionString });
    process.stdin.resume();
    await new Promise((resolve) => process.stdin.once("end", resolve));
    await cluster.stop();
  }
} catch (error) {
  print({ error: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
}
