/** The schema of a database as text, from the system catalogue (the embedded Postgres has no pg_dump). */
import type { Sql } from "../../../src/db/sql.js";

/**
 * Every table of schema `public` with its columns, constraints, indexes and triggers, then every function,
 * in an order that does not depend on how they came about.
 */
export async function describeSchema(sql: Sql): Promise<string> {
  const rows = await sql<{ text: string }[]>`
    with tables as (
      select c.oid, c.relname from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
    ),
    lines as (
      select relname as owner, 1 as part, '' as name, e'\ntable ' || relname as text from tables
      union all
      select relname, 2, lpad(a.attnum::text, 4, '0'),
        '    column ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || case when a.attnotnull then ' not null' else '' end
        || case when a.attidentity <> '' then ' generated as identity' else '' end
        || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
      from tables
      join pg_attribute a on a.attrelid = tables.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      union all
      select relname, 3, k.conname, '    constraint ' || k.conname || ' ' || pg_get_constraintdef(k.oid)
      from tables join pg_constraint k on k.conrelid = tables.oid and k.contype <> 'n'
      union all
      select relname, 4, i.indexrelid::regclass::text, '    ' || pg_get_indexdef(i.indexrelid)
      from tables join pg_index i on i.indrelid = tables.oid
      union all
      select relname, 5, t.tgname, '    ' || pg_get_triggerdef(t.oid)
      from tables join pg_trigger t on t.tgrelid = tables.oid and not t.tgisinternal
      union all
      select '~', 6, p.proname, e'\n' || pg_get_functiondef(p.oid)
      from pg_proc p where p.pronamespace = 'public'::regnamespace
    )
    select text from lines order by owner collate "C", part, name collate "C"`;
  const head = [
    "-- The schema after the last migration, as test/helpers/postgres/schema.ts reads it from the catalogue.",
    "-- A test compares it. After a new migration, rewrite it and check the difference:",
    "--     npx -y pnpm@12 test dist/test/db/migrations.integration.test.js -u",
  ];
  return `${[...head, ...rows.map((row) => row.text)].join("\n")}\n`;
}
