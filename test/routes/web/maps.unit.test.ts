/** Maps whose bytes nobody takes. */
import { setImmediate as soon } from "node:timers/promises";

import { expect, it } from "vitest";

import { type MapStore, WebMaps } from "../../../src/routes/web/maps.js";
import { createTappedLogger } from "../../helpers/cleartext/cleartext-tap.js";

/** Reads of the store that were begun. */
let reads = 0;

const notCalled = (): never => {
  throw new TypeError("not called");
};

function mapsOver(local: string | null): WebMaps {
  reads = 0;
  const store: MapStore = {
    putParts: notCalled,
    remove: notCalled,
    localPath: () => {
      reads += local === null ? 0 : 1;
      return local;
    },
    remote: {
      read: () => {
        reads++;
        return new Promise(() => undefined);
      },
    },
  };
  const admin = {
    map: () => Promise.resolve({ path: "web/maps/a.glb", bytes: 1 }),
    saveMap: notCalled,
    deleteMap: notCalled,
  };
  return new WebMaps({
    admin,
    store: () => Promise.resolve(store),
    directory: "web/maps",
    logger: createTappedLogger(),
  });
}

// The file is not there: opened for nobody, it would end the process with an error that nobody takes.
it.each([
  ["a file", "/nowhere/a.glb"],
  ["an object in a bucket", null],
])("opens %s when its first part is asked for", async (_what, local) => {
  const { parts } = await mapsOver(local).get("a.glb", "");
  await soon();
  expect(parts).not.toBeNull();
  expect(reads).toBe(0);
});
