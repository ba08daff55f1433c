/** Logins of the separate database roles (migrations/roles). */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";

import type { Sql } from "../../../src/db/sql.js";

export type DatabaseRole = "ingestion" | "analytics" | "web";

export interface RoleLogin {
  readonly name: string;
  readonly connectionString: string;
  /** To be called when nothing is connected as it any more. */
  drop(): Promise<void>;
}

/** Gives `role` its rights on the database of `sql`, the owner's pool, and makes a login that has them. */
export async function createRoleLogin(sql: Sql, connectionString: string, role: DatabaseRole): Promise<RoleLogin> {
  const text = await readFile(new URL(`../../../../migrations/roles/${role}.sql`, import.meta.url), "utf8");
  await sql.unsafe(text);
  // A second run changes nothing.
  await sql.unsafe(text);
  const name = `test_${role}_${randomBytes(4).toString("hex")}`;
  const password = randomBytes(12).toString("hex");
  await sql.unsafe(`create role ${name} login password '${password}'`);
  await sql.unsafe(`grant telemetry_${role} to ${name}`);
  const url = new URL(connectionString);
  url.username = name;
  url.password = password;
  return {
    name,
    connectionString: url.href,
    async drop() {
      await sql.unsafe(`drop role ${name}`);
    },
  };
}
