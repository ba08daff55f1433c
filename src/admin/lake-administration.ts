/** Retention, erasures and checks as administrators ask for them. Maintenance does them; this writes down what to do. */
import type { SqlOrTransaction, TransactionSql } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import type { Page } from "../wire/web/operation.js";
import { parseTimeNs } from "../runtime/text/time-text.js";
import { isUuid } from "../runtime/text/uuid.js";
import type { OperationInput } from "../wire/web/admin-api.js";
import type { lakeOperations } from "../wire/web/lake-api.js";
import { appendAudit } from "../auth/audit.js";
import type { Created } from "./grant-administration.js";
import { type Context, created, type Handlers, noContent, ok } from "./operation-context.js";

interface OverrideRow {
  readonly view: string;
  readonly audience: string | null;
  readonly days: number;
  readonly updated_at: Date;
  readonly updated_by: string;
}

/** Overrides and tasks without an end that there may be at once. */
const maxOverrides = 10_000;
const maxOpenTasks = 100;

/** The handlers of the routes over the lake. */
export const lakeHandlers: Handlers<keyof typeof lakeOperations> = {
  listRetention: async ({ query }, { read }) => ok(await read((sql) => selectRetention(sql, query))),
  getRetentionDefault: async (_input, { read }) => ok(await read(selectDefault)),
  putRetention: async ({ body }, context) =>
    created(await context.transaction((tx) => saveRetention(tx, context, body))),
  deleteRetention: ({ query }, context) => noContent(context, (tx) => deleteRetention(tx, context, query)),
  async createErasure({ body }, context) {
    const id = await context.transaction((tx) => createErasure(tx, context, body));
    return { status: 202, value: { erasure_id: id } };
  },
  listErasures: async ({ query }, { read }) => ok(await read((sql) => selectErasures(sql, null, query))),
  getErasure: async ({ path }, { read }) =>
    ok(found(await read((sql) => selectErasures(sql, path.id, { limit: 1, offset: 0 })))),
  async createLakeCheck({ body }, context) {
    const request = { repair: body.repair ?? false, deep: body.deep ?? false };
    const id = await context.transaction(async (tx) => {
      const task = await createTask(tx, context, "check", request);
      await appendAudit(tx, context, {
        action: "lake_check.create",
        target: task,
        details: { repair: String(request.repair), deep: String(request.deep) },
      });
      return task;
    });
    return { status: 202, value: { check_id: id } };
  },
  listLakeChecks: async ({ query }, { read }) => ok(await read((sql) => selectChecks(sql, null, query))),
  getLakeCheck: async ({ path }, { read }) =>
    ok(found(await read((sql) => selectChecks(sql, path.id, { limit: 1, offset: 0 })))),
};

function found<Row>([row]: readonly Row[]): Row {
  if (row === undefined) {
    throw new ServiceError("NOT_FOUND", "there is none of this id; the list shows which there are");
  }
  return row;
}

const overrideColumns = (sql: SqlOrTransaction) => sql`view_set as view, audience, days, updated_at, updated_by`;

function selectRetention(sql: SqlOrTransaction, { limit, offset }: Page): Promise<readonly OverrideRow[]> {
  return sql<OverrideRow[]>`
    select ${overrideColumns(sql)} from retention_overrides
    order by view_set, audience nulls first limit ${limit} offset ${offset}`;
}

async function selectDefault(sql: SqlOrTransaction): Promise<object> {
  const [row] = await sql<object[]>`
    select retention_days as days, retention_seen_at as seen_at,
      case when hold_until > now() then hold_until end as held_until
    from lake_state`;
  return row ?? { days: null, seen_at: null, held_until: null };
}

async function saveRetention(
  tx: TransactionSql,
  context: Context,
  { view, audience, days }: OperationInput<"putRetention">["body"],
): Promise<Created<OverrideRow>> {
  if (view === "api_key_usage" && audience !== undefined) {
    throw new ServiceError("BAD_REQUEST", "api_key_usage has no audience; leave it out");
  }
  await tx`lock table retention_overrides in share row exclusive mode`;
  const [known] = await tx<{ days: number }[]>`
    select days from retention_overrides where view_set = ${view} and coalesce(audience, '') = ${audience ?? ""}`;
  const [count] = await tx<{ n: number }[]>`select count(*)::int as n from retention_overrides`;
  if (known === undefined && (count?.n ?? 0) >= maxOverrides) {
    throw new ServiceError("CONFLICT", `there are ${maxOverrides} overrides already; delete some first`);
  }
  const [row] = await tx<OverrideRow[]>`
    insert into retention_overrides (view_set, audience, days, updated_by)
    values (${view}, ${audience ?? null}, ${days}, ${context.caller.name})
    on conflict (view_set, (coalesce(audience, ''))) do update
      set days = excluded.days, updated_at = now(), updated_by = excluded.updated_by
    returning ${overrideColumns(tx)}`;
  if (row === undefined) {
    throw new Error("an override was not saved");
  }
  await appendAudit(tx, context, {
    action: "retention.set",
    target: targetOf(view, audience),
    details: { days: String(days), ...(known === undefined ? {} : { before: String(known.days) }) },
  });
  return { row, created: known === undefined };
}

async function deleteRetention(
  tx: TransactionSql,
  context: Context,
  { view, audience }: OperationInput<"deleteRetention">["query"],
): Promise<void> {
  const [gone] = await tx<{ days: number }[]>`
    delete from retention_overrides where view_set = ${view} and coalesce(audience, '') = ${audience ?? ""}
    returning days`;
  if (gone === undefined) {
    throw new ServiceError("NOT_FOUND", "no such override; the list shows which there are");
  }
  await appendAudit(tx, context, {
    action: "retention.delete",
    target: targetOf(view, audience),
    details: { before: String(gone.days) },
  });
}

const targetOf = (view: string, audience: string | undefined): string => `${view}/${audience ?? "*"}`;

async function createErasure(
  tx: TransactionSql,
  context: Context,
  { audience, where, begin, end }: OperationInput<"createErasure">["body"],
): Promise<string> {
  const beginNs = begin === undefined ? null : parseTimeNs("begin", begin);
  const endNs = end === undefined ? null : parseTimeNs("end", end);
  if (beginNs !== null && endNs !== null && beginNs >= endNs) {
    throw new ServiceError("BAD_REQUEST", "begin must be before end");
  }
  const bounds = { begin_ns: bounded(beginNs), end_ns: bounded(endNs) };
  const id = await createTask(tx, context, "erasure", { audience, where, ...bounds });
  await appendAudit(tx, context, {
    action: "erasure.create",
    target: id,
    // No value: what is erased must not live on in a log that nobody can change.
    details: {
      audience,
      by: Object.keys(where).join(),
      ...(where.attribute === undefined ? {} : { key: where.attribute.key }),
      ...(bounds.begin_ns === null ? {} : { begin: bounds.begin_ns }),
      ...(bounds.end_ns === null ? {} : { end: bounds.end_ns }),
    },
  });
  return id;
}

/** Within the 64 bits that times of the lake have. */
function bounded(ns: bigint | null): string | null {
  const most = 2n ** 63n - 1n;
  return ns === null ? null : String(ns > most ? most : ns < -most ? -most : ns);
}

async function createTask(
  tx: TransactionSql,
  { caller }: Context,
  kind: "erasure" | "check",
  request: object,
): Promise<string> {
  const [open] = await tx<{ n: number }[]>`
    select count(*)::int as n from lake_tasks where state in ('waiting', 'running')`;
  if ((open?.n ?? 0) >= maxOpenTasks) {
    throw new ServiceError(
      "CONFLICT",
      `${maxOpenTasks} erasures and checks wait already; try again when some have ended`,
    );
  }
  const [row] = await tx<{ id: string }[]>`
    insert into lake_tasks (kind, request, created_by)
    values (${kind}, ${JSON.stringify(request)}::text::jsonb, ${caller.name}) returning task_id as id`;
  if (row === undefined) {
    throw new Error("a task was not saved");
  }
  return row.id;
}

function selectErasures(sql: SqlOrTransaction, id: string | null, page: Page): Promise<readonly object[]> {
  return sql<object[]>`
    select task_id as erasure_id, request ->> 'audience' as audience, request -> 'where' as "where",
      request ->> 'begin_ns' as begin, request ->> 'end_ns' as end, rows_removed::float8 as rows_removed,
      objects_rewritten::float8 as objects_rewritten, objects_removed::float8 as objects_removed, ${tasksOf(sql, "erasure", id, page)}`;
}

/** What reports of earlier releases do not count. */
const uncounted = JSON.stringify({ wrong_checksum: 0 });

function selectChecks(sql: SqlOrTransaction, id: string | null, page: Page): Promise<readonly object[]> {
  return sql<object[]>`
    select task_id as check_id, (request ->> 'repair')::boolean as repair, (request ->> 'deep')::boolean as deep,
      report || jsonb_build_object('counts', ${uncounted}::text::jsonb || (report -> 'counts')) as report, ${tasksOf(sql, "check", id, page)}`;
}

function tasksOf(sql: SqlOrTransaction, kind: string, id: string | null, { limit, offset }: Page) {
  return sql`state, error, created_at, created_by, started_at, finished_at
    from lake_tasks
    where kind = ${kind}
      ${id === null ? sql`` : isUuid(id.toLowerCase()) ? sql`and task_id = ${id}::uuid` : sql`and false`}
    order by created_at desc, task_id limit ${limit} offset ${offset}`;
}
