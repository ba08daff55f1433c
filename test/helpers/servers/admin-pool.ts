import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { type AdminPool, startAdminPool } from "../../../src/workers/admin-client.js";

/** The admin service on its thread, where nobody mints for himself. */
export function startTestAdminPool(connectionString: string, turnMs?: number): Promise<AdminPool> {
  return startAdminPool({
    connectionString,
    policy: {
      selfServiceMint: false,
      maxClaimsPerCaller: 1,
      maxKeysPerCaller: 1,
      defaultAudience: "public",
      reservedAudiences: new Set(),
    },
    logger: createSilentLogger(),
    metrics: createMetrics(),
    ...(turnMs === undefined ? {} : { turnMs }),
  });
}
