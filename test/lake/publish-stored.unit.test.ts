/** Whether objects stay in the store when their publication ends in one way or another. */
import { expect, it } from "vitest";

import { publishStored } from "../../src/lake/merge/merge-publish.js";
import type { ObjectStore } from "../../src/lake/store/object-store.js";

const lost = Object.assign(new Error("write CONNECTION_CLOSED"), { code: "CONNECTION_CLOSED" });
const refused = new Error("the database said no");

it.each([
  ["are published", true, true, true],
  ["may be published: the connection was lost", true, lost, true],
  ["are refused", true, refused, false],
  ["were replaced by others", true, false, false],
  ["were not told of before the connection was lost", false, lost, false],
])("objects that %s", async (_what, begun, outcome, stay) => {
  const removed: string[] = [];
  const store = { remove: (path: string) => Promise.resolve(removed.push(path)) } as unknown as ObjectStore;
  const ended = await publishStored(
    store,
    () => ["a", "b"],
    async (begin) => {
      if (begun) {
        begin();
      }
      if (outcome instanceof Error) {
        throw outcome;
      }
      return outcome;
    },
  ).catch((error: unknown) => error);
  expect(ended).toBe(outcome);
  expect(removed).toEqual(stay ? [] : ["a", "b"]);
});
