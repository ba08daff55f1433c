/** Statements that have passed the gate although they name files of others: an engine opens none of them. */
import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { EngineSupervisor } from "../../src/engine/supervisor.js";
import { lakeInstance } from "../../src/query/backend/engine-instances.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import type { Attack } from "./attacks.js";

/** What it is called. */
export const pastTheGate = { point: "S5", name: "files of others, past the gate" } as const;

/** An attack, and what it holds until it is stopped. */
export interface PastTheGate {
  readonly attack: Attack;
  stop(): Promise<void>;
}

/**
 * Starts an engine of its own over the files of one audience.
 * @param lake absolute directory of the whole lake
 * @param own audience whose files may be opened
 * @param other audience whose files may not; it has log entries
 */
export async function startPastTheGate(lake: string, own: string, other: string): Promise<PastTheGate> {
  const engines = await EngineSupervisor.start({
    engines: 2,
    spares: 1,
    memoryBytes: 256 << 20,
    tempBytes: 0,
    tempDirectory: path.join(tmpdir(), "past-the-gate"),
    threads: 1,
    logger: createSilentLogger(),
    metrics: createMetrics(),
  });
  const directoryOf = (audience: string): string => path.join(lake, "log_entries", `audience=${audience}`);
  const names = await readdir(directoryOf(other), { recursive: true });
  const name = names.find((one) => one.endsWith(".parquet"));
  if (name === undefined) {
    throw new Error(`there are no files of ${other}`);
  }
  const file = path.join(directoryOf(other), name);
  const instance = lakeInstance([directoryOf(own)]);
  const statements = [
    `SELECT count(*) FROM read_parquet('${file}')`,
    `SELECT count(*) FROM '${file}'`,
    `SELECT count(*) FROM read_parquet('${lake}/**/*.parquet')`,
    `SELECT count(*) FROM read_blob('${file}')`,
    `SELECT count(*) FROM read_parquet('${directoryOf(own)}/../audience=${other}/${name}')`,
    `COPY (SELECT 1) TO '${directoryOf(other)}/new.parquet'`,
    `ATTACH '${file}' AS other`,
    `SET allowed_directories = ['/']`,
    "SET enable_external_access = true",
  ];
  let asked = 0;
  return {
    attack: {
      ...pastTheGate,
      wanted: { words: "kept out by the engine", outcome: /^kept out$/u },
      run: async () => {
        const startMs = performance.now();
        const sql = statements[asked++ % statements.length] ?? "";
        const lease = await engines.lease(instance, new AbortController().signal);
        const outcome = await lease.run(instance, [{ kind: "rows", sql, maxBytes: 1000 }]);
        lease.release();
        const said = outcome.kind === "lost" ? "lost" : (outcome.end.error ?? "an answer");
        const out = /Permission Error|locked|Cannot change/u.test(said) ? "kept out" : said;
        return [{ outcome: out, ms: performance.now() - startMs }];
      },
    },
    stop: () => engines.stop(),
  };
}
