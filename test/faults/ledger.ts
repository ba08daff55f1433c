/** Senders that remember what was acknowledged, and the comparison of that with what queries return. */
import { setTimeout as sleep } from "node:timers/promises";

import { protobufLogs } from "../helpers/otlp/otlp-bodies.js";

/** Records of a request. */
export const recordsPerRequest = 10;

/** What was sent to stay. */
export interface Ledger {
  /** Marks of requests, in the order in which they were first sent. */
  readonly sent: Set<string>;
  readonly acknowledged: Set<string>;
  /** Requests that were not answered 200, and so sent again. */
  retries: number;
}

export interface Sender {
  readonly ledger: Ledger;
  /** Sends one request until it is acknowledged, to whichever server is there. */
  send(o: { readonly key: string; readonly mark: string; readonly service: string }): Promise<void>;
  /** Sends requests that stay, one after the other, until told to stop; the last one to its end. */
  load(o: { readonly key: string; readonly stopped: () => boolean; readonly pauseMs: number }): Promise<void>;
}

/** Of `urls` the addresses of ingestion servers that run. `aborted`: nothing is sent again after that. */
export function createSender(urls: () => readonly string[], random: () => number, aborted: AbortSignal): Sender {
  const ledger: Ledger = { sent: new Set(), acknowledged: new Set(), retries: 0 };
  let next = 0;
  const send: Sender["send"] = async ({ key, mark, service }) => {
    const body = protobufLogs(mark, recordsPerRequest, service);
    while (!aborted.aborted) {
      const alive = urls();
      const url = alive[Math.floor(random() * alive.length)];
      if (url !== undefined) {
        try {
          const response = await fetch(`${url}/v1/logs`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/x-protobuf" },
            body,
            signal: AbortSignal.timeout(20_000),
          });
          await response.arrayBuffer();
          if (response.status === 200) {
            return;
          }
          if (response.status !== 503) {
            throw new RangeError(`a request was answered ${response.status}`);
          }
        } catch (error) {
          if (error instanceof RangeError) {
            throw error;
          }
          // The connection broke: whether the request was stored is not known, so it is sent again.
        }
        ledger.retries += 1;
      }
      await sleep(50);
    }
    throw new Error("interrupted");
  };
  return {
    ledger,
    send,
    async load({ key, stopped, pauseMs }) {
      while (!stopped()) {
        const mark = `r${(next += 1)}`;
        ledger.sent.add(mark);
        await send({ key, mark, service: "keep" });
        ledger.acknowledged.add(mark);
        await sleep(pauseMs);
      }
    },
  };
}

/** Of one mark: records found, and different ones among them. */
export interface Found {
  readonly mark: string;
  readonly n: number;
  readonly d: number;
}

/** Records that are missing of acknowledged requests, and those that are there too often or were never sent. */
export function compare(ledger: Ledger, rows: readonly Found[]): { lost: number; doubled: number } {
  const found = new Map(rows.map((row) => [row.mark, row]));
  let lost = 0;
  for (const mark of ledger.acknowledged) {
    lost += recordsPerRequest - (found.get(mark)?.d ?? 0);
  }
  let doubled = 0;
  for (const { mark, n, d } of rows) {
    doubled += ledger.sent.has(mark) ? n - d : n;
    // Half a request is none that a sender can mend.
    if (!ledger.acknowledged.has(mark) && d !== recordsPerRequest) {
      lost += recordsPerRequest - d;
    }
  }
  return { lost, doubled };
}
