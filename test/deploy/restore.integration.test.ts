/** The statements of docs/deploy.md that restore a backup of servers with logins of their own, on a cluster without roles. */
import { readdir, readFile } from "node:fs/promises";

import { expect, it } from "vitest";

import { migrate, migrateWeb } from "../../src/db/migrations.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { useEmbeddedCluster } from "../helpers/postgres/embedded.js";

const fresh = useEmbeddedCluster();

it("a new cluster takes the roles that docs/deploy.md makes before a restore, and the files of roles after it", async () => {
  const { db, cluster } = fresh();
  const text = await readFile("docs/deploy.md", "utf8");
  const [, section = ""] = /^## Backup and restore$([^]*?)^## /mu.exec(text) ?? [];
  // `telemetry` is taken here.
  const statements = [...section.matchAll(/--command "([^"]*)"/gu)].map(([, statement = ""]) =>
    statement.replaceAll(/\btelemetry\b/gu, "owner_1").replaceAll("'...'", "'p'"),
  );
  expect(statements.length).toBeGreaterThan(2);

  const superuser = db.open(cluster.connectionString);
  for (const statement of statements) {
    await superuser.unsafe(statement);
  }
  await superuser.unsafe("create database restored owner owner_1 encoding UTF8 template template0");

  const uri = new URL(cluster.connectionString);
  Object.assign(uri, { username: "owner_1", password: "p", pathname: "/restored" });
  const owner = db.open(uri.href);
  const logger = createSilentLogger();
  await migrate(owner, logger);
  await migrateWeb(owner, logger);
  for (const file of await readdir("migrations/roles")) {
    await owner.unsafe(await readFile(`migrations/roles/${file}`, "utf8"));
  }
  const login = owner.unsafe("create role ingestion_1 login; grant telemetry_ingestion to ingestion_1").simple();
  await expect(login).resolves.toBeDefined();
});
