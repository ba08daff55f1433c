/**
 * Revocation at the running servers. A decision is made between the moment that a request is sent and
 * the moment that it is answered, and test and servers share one clock. So whatever the machine is busy
 * with, a request sent later than the TTL after the revocation was committed must be refused.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { beforeAll, describe, expect, test } from "vitest";

import { flightInfo, grpcOk, grpcUnauthenticated } from "../helpers/auth/auth-grpc.js";
import { startTestService, type TestService } from "../helpers/auth/auth-service.js";
import { until } from "../helpers/until.js";

const ttlSeconds = 0.6;
const environment = { SVC_AUTH_CACHE_TTL_SECONDS: String(ttlSeconds) };

let t: TestService;
beforeAll(async () => {
  t = await startTestService();
  return () => t.stop();
});

interface Sample {
  readonly sentMs: number;
  readonly accepted: boolean;
}

/** Uses a credential all the time, in `workers` lanes, revokes it, and returns what was seen. */
async function sampleRevocation(o: {
  readonly table: "ingestion_api_keys" | "analytics_api_keys";
  readonly keyId: string;
  readonly use: () => Promise<"accepted" | "refused">;
}): Promise<{ readonly samples: readonly Sample[]; readonly revokedMs: number }> {
  const samples: Sample[] = [];
  const done = new AbortController();
  const lane = async (): Promise<void> => {
    while (!done.signal.aborted) {
      const sentMs = performance.now();
      samples.push({ sentMs, accepted: (await o.use()) === "accepted" });
      await sleep(2);
    }
  };
  const lanes = [lane(), lane(), lane()];
  await expect.poll(() => samples.filter((s) => s.accepted).length).toBeGreaterThan(10);
  await t.sql`update ${t.sql(o.table)} set revoked_at = now() where key_id = ${o.keyId}`;
  const revokedMs = performance.now();
  const late = (): number => samples.filter((s) => s.sentMs > revokedMs + ttlSeconds * 1000).length;
  await until(() => late() >= 50);
  done.abort();
  await Promise.all(lanes);
  return { samples, revokedMs };
}

function tooLate(o: Awaited<ReturnType<typeof sampleRevocation>>): readonly Sample[] {
  const bound = o.revokedMs + ttlSeconds * 1000;
  return o.samples.filter((sample) => sample.accepted && sample.sentMs > bound);
}

describe.each(["1", "2"])("an ingestion key, with %s acceptor thread(s)", (acceptors) => {
  test("is refused within the TTL of its revocation, with no access after it", async () => {
    const server = await t.startIngestion({ ...environment, SVC_INGESTION_ACCEPTORS: acceptors });
    const { key, keyId } = await t.mintIngestion("red");
    const seen = await sampleRevocation({
      table: "ingestion_api_keys",
      keyId,
      use: async () => {
        // Judged after the credential, and before anything is stored.
        const { status } = await server.post(key, { contentType: "text/plain" });
        expect([401, 415]).toContain(status);
        return status === 415 ? "accepted" : "refused";
      },
    });
    expect(tooLate(seen)).toEqual([]);
    expect((await server.post(key)).status).toBe(401);
    await server.stop();
    // The use of the key, though it was seconds ago, is on record after the server has stopped.
    const [row] = await t.sql<{ used: boolean }[]>`
      select last_used_at is not null as used from ingestion_api_keys where key_id = ${keyId}`;
    expect(row).toEqual({ used: true });
  });
});

test("an analytics key is refused within the TTL of its revocation, with no access after it", async () => {
  const server = await t.startAnalytics(environment);
  const { key, keyId } = await t.mintAnalytics();
  const seen = await sampleRevocation({
    table: "analytics_api_keys",
    keyId,
    use: async () => {
      const { status } = await flightInfo(server.port, { authorization: `Bearer ${key}` });
      expect([grpcOk, grpcUnauthenticated]).toContain(status);
      return status === grpcOk ? "accepted" : "refused";
    },
  });
  expect(tooLate(seen)).toEqual([]);
  await server.stop();
  const [row] = await t.sql<{ used: boolean }[]>`
    select last_used_at is not null as used from analytics_api_keys where key_id = ${keyId}`;
  expect(row).toEqual({ used: true });
});
