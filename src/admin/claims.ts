/**
 * Claims of brand-new audiences.
 *
 * An audience is `unclaimed` while it has neither a grant nor a key, and `claimed` from then on. The
 * events and what they lead to, for a claim that the policy allows:
 *
 *   unclaimed, lock taken, the facts read again still allow it        -> claimed: key row, mint grant
 *                                                and read grant of `user:<email>`, audit, one commit
 *   unclaimed, the lock is held by somebody else                      -> unchanged: CLAIM_CONTENDED
 *   claimed by others in between                                      -> unchanged: FORBIDDEN
 *   claimed in between, and the caller holds a mint grant of it       -> a plain mint, `claimed` false
 *   the process or the connection ends before the commit              -> unclaimed: Postgres undoes all
 *   the connection ends with the commit under way                     -> what Postgres says became of it
 *                                                (settled-transactions.ts)
 *
 * Two fences keep it so. In the process, one actor takes one claim at a time, so that claims never hold
 * more than one of the two connections and never contend with each other. Across processes, the
 * transaction holds an advisory lock on the audience's name, which only its end releases. The next
 * holder therefore sees, in its next statement, what the last one committed.
 */
import { randomUUID } from "node:crypto";

import type { TransactionSql } from "../db/sql.js";
import { Actor, ask, type Reply } from "../runtime/actor.js";
import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import { appendAudit, type Author } from "../auth/audit.js";
import { userMemberOf } from "../auth/caller.js";
import { type MintedIngestionKey, mintIngestionKey } from "../auth/keys/keys.js";
import { lockCaller, tryLockAudience } from "./locks.js";
import { decideMint, type MintPolicy, selectMintFacts } from "./minting-policy.js";
import type { CallSql } from "../db/settled-transactions.js";

/** A mint that names a brand-new audience. */
export interface Claim extends Author {
  readonly name: string;
  readonly audience: string;
}

/** What a claim or a mint made. */
export interface MintResult {
  readonly key: MintedIngestionKey;
  /** True only when this call created the audience's first grants. */
  readonly claimed: boolean;
}

/** Options of {@link createClaims}. */
interface ClaimsOptions {
  readonly policy: MintPolicy;
  readonly logger: Logger;
}

/** Serialises the claims of a process. */
interface Claims extends Component {
  /**
   * @param call the claimer's: what is past its deadline when its turn comes is not begun.
   * @throws ServiceError CLAIM_CONTENDED, FORBIDDEN, or OVERLOADED when too many wait.
   */
  claim(call: Pick<CallSql, "transaction">, claim: Claim): Promise<MintResult>;
}

interface ClaimMessage {
  readonly call: Pick<CallSql, "transaction">;
  readonly claim: Claim;
  readonly reply: Reply<MintResult>;
}

/** Claims that may wait for their turn. */
const capacity = 1024;

/** See the head of the file. */
export function createClaims(o: ClaimsOptions): Claims {
  const actor = new Actor<ClaimMessage>({
    name: "claims",
    capacity,
    logger: o.logger,
    async handle({ call, claim, reply }) {
      // A claim that fails is the claim's business: the actor has no state that it could have broken.
      await call.transaction((tx) => claimIn(tx, o.policy, claim)).then(reply.resolve, reply.reject);
    },
  });
  return {
    name: actor.name,
    claim: (call, claim) => ask<ClaimMessage, MintResult>(actor, (reply) => ({ call, claim, reply })),
    stop: () => actor.stop(),
  };
}

async function claimIn(tx: TransactionSql, policy: MintPolicy, claim: Claim): Promise<MintResult> {
  const { caller, audience } = claim;
  // Sent together and run in this order. The facts are a statement of their own after the locks: its
  // snapshot holds all that the last holder committed.
  const [, locked, facts] = await Promise.all([
    lockCaller(tx, caller.name),
    tryLockAudience(tx, audience),
    selectMintFacts(tx, policy, caller, audience),
  ]);
  if (!locked) {
    throw new ServiceError("CLAIM_CONTENDED");
  }
  const decision = decideMint(facts, policy, { caller, audience, explicit: true });
  if (decision.kind === "refused") {
    throw new ServiceError("FORBIDDEN", decision.message);
  }
  const member = userMemberOf(caller);
  const claimed = decision.kind === "claim" && member !== null;
  const [, key] = await Promise.all([claimed ? grantToClaimer(tx, claim, member) : null, mintAudited(tx, claim)]);
  return { key, claimed };
}

async function grantToClaimer(tx: TransactionSql, claim: Claim, member: string): Promise<void> {
  const { caller, audience } = claim;
  await Promise.all([
    tx`
      insert into audience_grants (audience, kind, member, created_by)
      values (${audience}, 'mint', ${member}, ${caller.name}),
             (${audience}, 'read', ${member}, ${caller.name})`,
    appendAudit(tx, claim, {
      action: "audience.claim",
      target: audience,
      details: { member },
    }),
  ]);
}

/** Inserts the key and its line of the audit. */
export async function mintAudited(tx: TransactionSql, mint: Claim): Promise<MintedIngestionKey> {
  const { caller, name, audience } = mint;
  const keyId = randomUUID();
  const [key] = await Promise.all([
    mintIngestionKey(tx, { keyId, name, audience, createdBy: caller.name }),
    appendAudit(tx, mint, {
      action: "key.mint",
      target: keyId,
      details: { table: "ingestion_api_keys", name, audience },
    }),
  ]);
  return key;
}
