/** What those notice who use a server while another hurts it. */
import { expect, test } from "vitest";

import { startBystander } from "../../bench/load/bystanders.js";
import { until } from "../helpers/until.js";

test("counts a wait that has not ended, so that a server which answers nobody looks slow", async () => {
  let answer = (): void => undefined;
  let asked = 0;
  const bystander = startBystander(0, () => {
    asked++;
    return new Promise<void>((resolve) => {
      answer = resolve;
    });
  });
  await until(() => asked === 1);
  expect(bystander.look()).toEqual({ times: [expect.any(Number)], failures: [] });
  const stopped = bystander.stop();
  answer();
  await stopped;
  expect(bystander.look().times).toHaveLength(1);
});
