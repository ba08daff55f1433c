/** Maps whose bytes nobody takes, and maps that are replaced while they are asked for. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setImmediate as soon } from "node:timers/promises";

import { afterAll, beforeAll, expect, it } from "vitest";

import { AppRoutes } from "../../../src/routes/web/app-routes.js";
import { type MapStore, WebMaps } from "../../../src/routes/web/maps.js";
import { ServiceError } from "../../../src/runtime/errors.js";
import { createTappedLogger } from "../../helpers/cleartext/cleartext-tap.js";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "maps-"));
  await writeFile(path.join(directory, "new.glb"), "new");
});
afterAll(() => rm(directory, { recursive: true }));

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

/** Asks for a map whose name stands for these objects, one look after the other; the last one stays. */
async function ask(paths: readonly string[], isLocal: boolean): Promise<{ sent: string; looks: number }> {
  let looks = 0;
  const store: MapStore = {
    putParts: notCalled,
    remove: notCalled,
    localPath: (name) => (isLocal ? path.join(directory, name) : null),
    remote: {
      read: async (name, _range, onBytes) => {
        if (name !== "new.glb") {
          throw new ServiceError("NOT_FOUND", "an object is gone from the object store");
        }
        await onBytes(Buffer.from("new"));
      },
    },
  };
  const maps = new WebMaps({
    admin: {
      map: () => Promise.resolve({ path: paths[Math.min(looks++, paths.length - 1)] ?? "", bytes: 3 }),
      saveMap: notCalled,
      deleteMap: notCalled,
    },
    store: () => Promise.resolve(store),
    directory: "web/maps",
    logger: createTappedLogger(),
  });
  let sent = "";
  const routes = new AppRoutes({ maps } as ConstructorParameters<typeof AppRoutes>[0]);
  await routes
    .answer({
      id: "getMap",
      path: { file: "a.glb" },
      query: "",
      ifNoneMatch: "",
      send: async (head: { headers: string[][] }, parts: AsyncIterable<Uint8Array>) => {
        let text = "";
        for await (const part of parts) {
          text += Buffer.from(part).toString();
        }
        sent = `${head.headers[0]?.[1]} ${text}`;
        return true;
      },
    } as unknown as Parameters<AppRoutes["answer"]>[0])
    .catch((error: unknown) => {
      sent = String((error as { code: unknown }).code);
    });
  return { sent, looks };
}

it.each([
  ["a file", true, "ENOENT"],
  ["an object in a bucket", false, "NOT_FOUND"],
])(
  "looks once more when %s was replaced since it was looked up, and no more than that",
  async (_what, isLocal, gone) => {
    expect(await ask(["new.glb"], isLocal)).toEqual({ sent: '"new.glb" new', looks: 1 });
    expect(await ask(["old.glb", "new.glb"], isLocal)).toEqual({ sent: '"new.glb" new', looks: 2 });
    expect(await ask(["old.glb"], isLocal)).toEqual({ sent: gone, looks: 2 });
  },
);
