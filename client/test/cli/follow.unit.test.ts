import { expect, it } from "vitest";

import { followTask } from "../../src/cli/admin/follow.js";
import { routes } from "../../src/cli/admin/routes.js";

it("says what a task waits for once for each reason, and gives the last answer", async () => {
  const rows = [
    { state: "waiting", error: null },
    { state: "running", error: "the object store cannot be read" },
    { state: "running", error: "the object store cannot be read" },
    { state: "running", error: null },
    { state: "done", error: null },
  ];
  const asked: unknown[] = [];
  const said: string[] = [];
  const answer = await followTask(
    { erasure_id: "1" },
    { route: routes.getErasure, id: "erasure_id" },
    (request) => {
      asked.push(request);
      return Promise.resolve(rows[asked.length - 1]);
    },
    {
      stderr: { write: (text: string) => said.push(text) > 0 } as never,
      interrupted: new AbortController().signal,
    },
  );
  expect(answer).toEqual(rows.at(-1));
  expect(said).toEqual(["telemetry: it cannot go on at present: the object store cannot be read\n"]);
});
