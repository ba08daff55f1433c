/** Roll-ups of a lake in a bucket give the numbers of its rows. */
import path from "node:path";

import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import { type BucketLab, startBucketLab } from "../helpers/lake/bucket-lab.js";
import { findS3Server, s3Environment, type S3Server, startS3Server } from "../helpers/lake/s3-server.js";
import { expectNumbersOfRows } from "../helpers/query/rollup-model.js";

const program = await findS3Server();

describe.skipIf(program === null)("a lake in a bucket", () => {
  let server: S3Server;
  let lab: BucketLab;

  beforeAll(async () => {
    for (const [name, value] of Object.entries(s3Environment)) {
      vi.stubEnv(name, value);
    }
    server = await startS3Server(program ?? "");
    lab = await startBucketLab(server.endpoint, "rollups", { rollupRows: 1 });
  });

  afterAll(async () => {
    await lab.stop();
    await server.stop();
    vi.unstubAllEnvs();
  });

  it("gives the numbers of the rows, whatever was merged, erased, retired and past, and however a range cuts", async () => {
    const { files, add } = lab;
    const fileOf = (object: string): string => path.join(server.directory, "lake/rollups", object);
    const used = await expectNumbersOfRows({ lab, files, fileOf, add }, 8);
    // It was about roll-ups, and about roll-ups and rows together.
    expect(used.rollups).toBeGreaterThan(2);
    expect(used.together).toBeGreaterThan(0);
  }, 400_000);
});
