/** Messages between the web server's front and its admin thread. */
import type { CallerStanding } from "../admin/administrators.js";
import type { AdminAnswer, AdminCall, UndeliveredKey } from "../admin/admin-service.js";
import type { MintPolicy } from "../admin/minting-policy.js";
import type { Caller } from "../auth/caller.js";

/** What the thread is started with. */
export interface AdminWorkerData {
  /** Secret; never logged. */
  readonly connectionString: string;
  readonly policy: MintPolicy;
}

/** To the thread. `stop` closes the connections; nothing may follow it. */
export type AdminRequest =
  | { readonly kind: "call"; readonly call: AdminCall }
  | { readonly kind: "withdraw"; readonly minted: UndeliveredKey }
  | { readonly kind: "standing"; readonly caller: Caller }
  | { readonly kind: "probe" }
  | { readonly kind: "stop" };

/** Back from it; null for what has no answer. */
export type AdminResponse =
  | AdminAnswer
  | CallerStanding
  | { readonly problem: string | null }
  | null;
