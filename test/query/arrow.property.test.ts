import { beforeAll, expect, it } from "vitest";

import { checkNestedValues } from "../helpers/query/nested-values.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";

let t: TestBackend;

beforeAll(async () => {
  t = await startTestBackend();
  return () => t.stop();
});

it("returns nested values as they went in, whatever their lengths and nulls", async () => {
  await expect(checkNestedValues((sql) => t.query(sql))).resolves.toBe(undefined);
});
