/** A server loads the code of what it is to do alone: whoever starts it waits for the rest. */
import { readFile } from "node:fs/promises";
import path from "node:path";

import { expect, it } from "vitest";

import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";
import { temporaryDirectory } from "../helpers/servers/monolith.js";
import { startServerProcess } from "../helpers/servers/server-process.js";

it("loads neither roles that it does not play, nor what is for OIDC, S3 or development mode without those", async () => {
  const database = await createTestDatabase();
  await mintIngestionKey(database.sql, { name: "k", audience: "a", createdBy: "t" });
  const data = await temporaryDirectory();
  const recorded = path.join(data.directory, "loaded");
  const server = await startServerProcess("telemetry-monolith", {
    SVC_ROLES: "ingestion",
    SVC_SQL_CONNECTION_STRING: database.connectionString,
    SVC_DATA_DIR: data.directory,
    SVC_INGESTION_LISTEN: "127.0.0.1:0",
    LOADED_FILES: recorded,
    NODE_OPTIONS: `--import=${new URL("../helpers/servers/record-loads.js", import.meta.url).href}`,
  });
  expect(await server.end("SIGTERM")).toBe(0);
  const loaded = (await readFile(recorded, "utf8")).split("\n");
  expect(loaded).toContainEqual(expect.stringMatching(/\/src\/servers\/ingestion\.js$/u));
  const ofOthers =
    /\/dist\/src\/(?:admin|engine|query|login\/provider|routes\/web|routes\/flight|servers\/(?:analytics|maintenance|web)\.js)/u;
  const packages = /node_modules\/(?:@aws-sdk|@opentelemetry|apache-arrow|jose|koffi|oidc-provider|openid-client)\//u;
  expect(loaded.filter((url) => ofOthers.test(url) || packages.test(url))).toEqual([]);
  await data.remove();
  await database.drop();
});
