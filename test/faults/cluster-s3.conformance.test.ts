/** The cluster over a bucket, whose servers are killed and joined under load. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { describe, expect, it } from "vitest";

import { recordMinted } from "../helpers/cleartext/cleartext-tap.js";
import { findS3Server } from "../helpers/lake/s3-server.js";
import { bucketLake } from "./lakes.js";
import { report } from "./report.js";
import { runTrial } from "./trial.js";

const program = await findS3Server();
const leastKills = 30;
/** On a machine that does nothing else it takes some two minutes. */
const longestMs = 720_000;

describe.skipIf(program === null)("a cluster over a bucket", () => {
  it("loses and doubles nothing while its servers are killed and others join", async () => {
    const seed = Number(process.env["FAULTS_SEED"] ?? Math.floor(Math.random() * 1e6));
    const dataDirectory = await mkdtemp(path.join(tmpdir(), "telemetry-test-faults-"));
    const lake = await bucketLake(program ?? "");
    const say = (what: string): void => {
      process.stdout.write(`${what}\n`);
    };
    say(`seed ${seed}, which FAULTS_SEED repeats`);
    try {
      const outcome = await runTrial({
        lake,
        dataDirectory,
        seed,
        minutes: 0.75,
        leastKills,
        mostMinutes: 4,
        // So that it ends its processes itself.
        interrupted: AbortSignal.timeout(longestMs),
        minted: recordMinted,
        say,
      });
      say(outcome === null ? "it took too long" : report(outcome).join("\n"));
      expect(outcome?.problems).toEqual([]);
      expect(outcome).toMatchObject({ lost: 0, doubled: 0 });
      expect([...(outcome?.record.kinds.keys() ?? [])]).toEqual(
        expect.arrayContaining([
          "ingestion server killed",
          "analytics server killed",
          "object-cache server killed",
          "server of objects killed",
          "Postgres shut down at once",
          "ingestion server joined",
          "analytics server joined",
        ]),
      );
    } finally {
      await lake.stop();
      await rm(dataDirectory, { recursive: true, force: true, maxRetries: 5 });
    }
  }, 780_000);
});
