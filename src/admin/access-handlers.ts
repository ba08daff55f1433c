/** The operations over keys, their use, grants, groups and the audit. */
import { isAudience, type KeyTable } from "../auth/keys/keys.js";
import type { Caller } from "../auth/caller.js";
import { ServiceError } from "../runtime/errors.js";
import { parseTimeNs } from "../runtime/text/time-text.js";
import type { OperationInput, StoredOperationId } from "../wire/web/admin-api.js";
import type { lakeOperations } from "../wire/web/lake-api.js";
import { authorizing, isAdministrator, selectCallerAudiences } from "./administrators.js";
import { selectAudit } from "../auth/audit.js";
import { createGrant, deleteGrant, selectGrants } from "./grant-administration.js";
import {
  addMember,
  createGroup,
  deleteGroup,
  removeMember,
  selectGroups,
  selectMembers,
} from "./group-administration.js";
import { mintAnalyticsAudited, mintUnderGrant, revokeKey, selectKeysJson } from "./key-administration.js";
import { decideMint, type MintPolicy, selectMintFacts } from "./minting-policy.js";
import { type Context, created, type Handlers, noContent, ok, type Result } from "./operation-context.js";
import { selectUsage } from "./usage.js";
import type { WebOperationId } from "./web/handlers.js";

type AccessOperationId = Exclude<StoredOperationId, WebOperationId | keyof typeof lakeOperations>;

export const accessHandlers: Handlers<AccessOperationId> = {
  listUsage,
  mintIngestionKey: ({ body }, context) => mintIngestion(body, context),
  listIngestionKeys: ({ query }, context) => listKeys("ingestion_api_keys", query, context),
  revokeIngestionKey: ({ path }, context) => revoke("ingestion_api_keys", path.key_id, context),
  async mintAnalyticsKey({ body }, context) {
    const key = await context.transaction((tx) => mintAnalyticsAudited(tx, context, body.name));
    const { keyId, name, createdAt: created_at } = key;
    return {
      status: 201,
      value: { key_id: keyId, name, created_at, key: key.key },
      minted: { table: "analytics_api_keys", keyId },
    };
  },
  listAnalyticsKeys: ({ query }, context) => listKeys("analytics_api_keys", query, context),
  revokeAnalyticsKey: ({ path }, context) => revoke("analytics_api_keys", path.key_id, context),
  createGrant: async ({ body }, context) => created(await context.transaction((tx) => createGrant(tx, context, body))),
  listGrants: async ({ query }, { read }) => ok(await read((sql) => selectGrants(sql, query))),
  deleteGrant: ({ query }, context) => noContent(context, (tx) => deleteGrant(tx, context, query)),
  async myAudiences(_input, { read, caller, policy }) {
    const own = await read((sql) => authorizing(sql, () => selectCallerAudiences(sql, caller)));
    const value = {
      email: caller.email,
      is_admin: own.isAdmin,
      admins_open: own.adminsOpen,
      read: own.read,
      mint: own.mint,
      self_service: policy.selfServiceMint,
    };
    return ok(value);
  },
  createGroup: async ({ body }, context) =>
    created(await context.transaction((tx) => createGroup(tx, context, body.name))),
  listGroups: async ({ query }, { read }) => ok(await read((sql) => selectGroups(sql, query))),
  deleteGroup: ({ path }, context) => noContent(context, (tx) => deleteGroup(tx, context, path.name)),
  addGroupMember: async ({ path, body }, context) =>
    created(await context.transaction((tx) => addMember(tx, context, path.name, body.member))),
  listGroupMembers: async ({ path, query }, { read }) => ok(await read((sql) => selectMembers(sql, path.name, query))),
  removeGroupMember: ({ path, query }, context) =>
    noContent(context, (tx) => removeMember(tx, context, path.name, query.member)),
  listAudit: async ({ query }, { read }) => ok(await read((sql) => selectAudit(sql, query))),
};

/** Mints or claims. The facts are read here to choose between the two, and again in the transaction. */
async function mintIngestion(body: OperationInput<"mintIngestionKey">["body"], context: Context): Promise<Result> {
  const { caller, origin, policy } = context;
  const explicit = body.audience !== undefined || body.user_audience !== undefined;
  const audience = audienceOf(body, caller, policy);
  const facts = await context.read((sql) => authorizing(sql, () => selectMintFacts(sql, policy, caller, audience)));
  const decision = decideMint(facts, policy, { caller, audience, explicit });
  if (decision.kind === "refused") {
    throw new ServiceError("FORBIDDEN", decision.message);
  }
  const { key, claimed } =
    decision.kind === "claim"
      ? await context.claim(body.name, audience)
      : await context.transaction((tx) =>
          mintUnderGrant(tx, policy, { caller, origin, name: body.name, audience, explicit }),
        );
  const value = {
    key_id: key.keyId,
    name: key.name,
    created_at: key.createdAt,
    key: key.key,
    audience: key.audience,
    claimed,
  };
  return { status: 201, value, minted: { table: "ingestion_api_keys", keyId: key.keyId } };
}

function audienceOf(body: OperationInput<"mintIngestionKey">["body"], caller: Caller, policy: MintPolicy): string {
  if (body.user_audience === undefined) {
    return body.audience ?? policy.defaultAudience;
  }
  if (body.audience !== undefined) {
    throw new ServiceError("BAD_REQUEST", "give audience or user_audience, not both");
  }
  if (caller.email === null) {
    throw new ServiceError(
      "FORBIDDEN",
      "user_audience begins with your email, and your identity has no verified one; give audience",
    );
  }
  const localPart = caller.email.slice(0, caller.email.lastIndexOf("@"));
  const audience = `${localPart.replaceAll(/[^A-Za-z0-9_-]/gu, "-")}-${body.user_audience}`;
  if (!isAudience(audience)) {
    throw new ServiceError(
      "BAD_REQUEST",
      "user_audience must be shorter: with your email before it, it exceeds 255 characters",
    );
  }
  return audience;
}

async function listKeys(
  table: KeyTable,
  query: OperationInput<"listAnalyticsKeys">["query"] & Partial<OperationInput<"listIngestionKeys">["query"]>,
  { read, caller }: Context,
): Promise<Result> {
  const { limit, offset, include_revoked: includeRevoked, include_usage: includeUsage = false, mine = false } = query;
  const page = { limit, offset, includeRevoked, includeUsage, owner: mine ? caller : null };
  return { status: 200, json: await read((sql) => selectKeysJson(sql, table, page)) };
}

async function revoke(table: KeyTable, keyId: string, context: Context): Promise<Result> {
  const revokedAt = await context.transaction((tx) => revokeKey(tx, table, context, keyId));
  return ok({ revoked_at: revokedAt });
}

const dayMs = 86_400_000;
/** Of what one answer sums up. */
const maxUsageDays = 400;

async function listUsage({ query }: OperationInput<"listUsage">, { read, caller }: Context): Promise<Result> {
  const end = query.end === undefined ? new Date() : dateOf("end", query.end);
  const begin = query.begin === undefined ? new Date(end.getTime() - dayMs) : dateOf("begin", query.begin);
  if (begin >= end || end.getTime() - begin.getTime() > maxUsageDays * dayMs) {
    throw new ServiceError("BAD_REQUEST", `begin must be before end, by at most ${maxUsageDays} days`);
  }
  const { key_id: keyId = null, audience = null, step = "hour", mine } = query;
  const value = await read(async (sql) => {
    const isAll = !mine && (await authorizing(sql, () => isAdministrator(sql, caller)));
    return await selectUsage(sql, isAll ? null : caller, { keyId, audience, begin, end, step });
  });
  return ok(value);
}

/** Within the years 1 to 9999, which Postgres takes. @throws ServiceError BAD_REQUEST */
function dateOf(name: string, text: string): Date {
  const ms = Number(parseTimeNs(name, text) / 1_000_000n);
  return new Date(Math.min(Math.max(ms, Date.UTC(1970, 0, 1)), Date.UTC(9999, 0, 1)));
}
