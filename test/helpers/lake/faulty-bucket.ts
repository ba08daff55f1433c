/** A bucket on a real S3 server, behind a proxy that breaks what it is told to, with its credentials in the environment. */
import { vi } from "vitest";

import { type FaultProxy, s3Environment, type S3Server, startFaultProxy, startS3Server } from "./s3-server.js";

export interface FaultyBucket {
  readonly server: S3Server;
  readonly proxy: FaultProxy;
  stop(): Promise<void>;
}

/** @param program of `findS3Server`; tests are skipped where it is null */
export async function startFaultyBucket(program: string | null): Promise<FaultyBucket> {
  stubS3Environment();
  const server = await startS3Server(program ?? "");
  const proxy = await startFaultProxy(server.endpoint);
  return {
    server,
    proxy,
    async stop() {
      await proxy.stop();
      await server.stop();
      vi.unstubAllEnvs();
    },
  };
}

export function stubS3Environment(): void {
  for (const [name, value] of Object.entries(s3Environment)) {
    vi.stubEnv(name, value);
  }
}
