/** Messages between the web server's front and its admin thread. */
import type { AdminAnswer, AdminCall, UndeliveredKey } from "../admin/admin-service.js";
import type { MintPolicy } from "../admin/minting-policy.js";

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
  | { readonly kind: "probe" }
  | { readonly kind: "stop" };

/** Back from it; null for what has no answer. */
export type AdminResponse = AdminAnswer | { readonly problem: string | null } | null;
