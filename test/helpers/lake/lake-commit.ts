/** What ingestion does with a batch of requests, without its threads: objects, then one commit. */
import { BatchEncoder, toEncodeBatch, toEncodedBatch } from "../../../src/ingest/encode-batch.js";
import { requestCode } from "../../../src/ingest/request.js";
import type { Sql } from "../../../src/db/sql.js";
import { commitSegments, type CommitResult } from "../../../src/lake/commit.js";
import type { ObjectStore } from "../../../src/lake/store/object-store.js";

/** The body of a request for logs, as base64 so that it goes to another process. */
export interface SentLogs {
  readonly audience: string;
  readonly body: string;
}

/** Around a commit: its objects are stored, and it is done. */
export type CommitPoint = "publishing" | "published";

export async function commitLogs(
  sql: Sql,
  store: ObjectStore,
  sent: readonly SentLogs[],
  at: (point: CommitPoint) => Promise<void> | void = () => undefined,
  receivedUnixNano = BigInt(Date.now()) * 1_000_000n,
): Promise<CommitResult> {
  const encoder = new BatchEncoder(store, {
    maxInflatedBytes: 1 << 20,
    maxDepth: 100,
    compression: "none",
    batchBytes: 8 << 20,
  });
  const requests = sent.map(({ audience, body }) => {
    const bytes = Buffer.from(body, "base64");
    const buffer = new SharedArrayBuffer(bytes.length);
    new Uint8Array(buffer).set(bytes);
    const code = requestCode(1, "protobuf", "identity");
    return { buffer, offset: 0, length: bytes.length, code, audience, sinceMs: 0, answer: () => undefined };
  });
  const { commit } = toEncodedBatch(await encoder.encode(toEncodeBatch(requests, new Set(), receivedUnixNano)));
  await at("publishing");
  const result = await commitSegments(sql, [commit]);
  await at("published");
  return result;
}
