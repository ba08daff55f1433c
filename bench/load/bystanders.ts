/** Those who use a server while somebody else tries to hurt it, and what they notice. */
import { setTimeout as sleep } from "node:timers/promises";

import { connect } from "telemetry-service-client";
import { staticKey } from "telemetry-service-client";

/** What one of them noticed. */
export interface Noticed {
  /** Milliseconds that each took; of one that has not ended, how long it has been waited for. */
  readonly times: readonly number[];
  /** One sentence each. */
  readonly failures: readonly string[];
}

/** Somebody who does one thing over and over. */
interface Bystander {
  /** What was noticed since the last call. */
  look(): Noticed;
  /** Resolves when the last one is done. */
  stop(): Promise<void>;
}

/** Does something every so often, each after the one before it has ended; it throws what is wrong. */
export function startBystander(everyMs: number, act: () => Promise<void>): Bystander {
  let times: number[] = [];
  let failures: string[] = [];
  let beganMs: number | null = null;
  const stopping = new AbortController();
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const startMs = performance.now();
      beganMs = startMs;
      try {
        await act();
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error));
      }
      beganMs = null;
      const tookMs = performance.now() - startMs;
      times.push(tookMs);
      await sleep(Math.max(0, everyMs - tookMs));
    }
  };
  const running = run();
  return {
    look: () => {
      const waited = beganMs === null ? [] : [performance.now() - beganMs];
      const noticed = { times: [...times, ...waited], failures };
      times = [];
      failures = [];
      return noticed;
    },
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

/** Asks once and compares; it reconnects when the server is gone. */
export function asking(uri: string, key: string, sql: string, expected: string): () => Promise<void> {
  return async () => {
    const client = connect({ uri, auth: staticKey(key) });
    try {
      const { batches } = await client.query(sql);
      const rows: unknown[] = [];
      for await (const batch of batches) {
        for (const row of batch) {
          rows.push(row.toJSON());
        }
      }
      const found = JSON.stringify(rows, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
      if (found !== expected) {
        throw new Error(`a wrong answer: ${found}`);
      }
    } finally {
      client.close();
    }
  };
}

/** Sends one log record. */
export function sending(url: string, key: string): () => Promise<void> {
  let sent = 0;
  return async () => {
    const timeUnixNano = `${Date.now()}000000`;
    const logRecords = [{ timeUnixNano, body: { stringValue: `record ${sent++}` } }];
    const response = await fetch(`${url}/ingestion/otlp/v1/logs`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }),
    });
    await response.arrayBuffer();
    if (response.status !== 200) {
      throw new Error(`ingestion answers ${response.status}`);
    }
  };
}

/** Asks whether the server is well. */
export function probing(url: string): () => Promise<void> {
  return async () => {
    const response = await fetch(`${url}/health`);
    await response.arrayBuffer();
    if (response.status !== 200) {
      throw new Error(`/health answers ${response.status}`);
    }
  };
}
