/** What the handlers of operations are given, and give. */
import type { KeyTable } from "../auth/keys/keys.js";
import type { TransactionSql } from "../db/sql.js";
import type { CallSql } from "../db/settled-transactions.js";
import type { OperationInput, StoredOperationId } from "../wire/web/admin-api.js";
import type { Author } from "../auth/audit.js";
import type { MintResult } from "./claims.js";
import type { Created } from "./grant-administration.js";
import type { MintPolicy } from "./minting-policy.js";

/** A key, with its table. */
export interface KeyReference {
  readonly table: KeyTable;
  readonly keyId: string;
}

/** Of one call. */
export interface Context extends CallSql, Author {
  readonly claim: (name: string, audience: string) => Promise<MintResult>;
  readonly policy: MintPolicy;
}

/** What an operation answers. */
export interface Result {
  readonly status: number;
  /** To be written as JSON. */
  readonly value?: unknown;
  /** JSON already. Without either there is no body. */
  readonly json?: string;
  readonly minted?: KeyReference;
}

/** A handler of each of some operations. */
export type Handlers<Ids extends StoredOperationId> = {
  readonly [Id in Ids]: (input: OperationInput<Id>, context: Context) => Promise<Result>;
};

/** 200 with a value as JSON. */
export const ok = (value: unknown): Result => ({ status: 200, value });

/** 201 for what is new, 200 for what existed. */
export function created<Row>({ row, created: isNew }: Created<Row>): Result {
  return { status: isNew ? 201 : 200, value: row };
}

/** Makes a change that nothing is said of but that it was made: 204. */
export async function noContent(
  { transaction }: Context,
  change: (tx: TransactionSql) => Promise<unknown>,
): Promise<Result> {
  await transaction(change);
  return { status: 204 };
}
