/** What a thread and the key-lookup actor of the main thread say to each other over a MessagePort. */
import type { AuthOutcome } from "../authenticator.js";

/** From a reading thread. Hashes are 32 one-byte characters. */
export type KeyLookupRequest =
  | { readonly kind: "lookup"; readonly hashes: readonly string[] }
  | { readonly kind: "refresh"; readonly hashes: readonly string[] };

/** To a reading thread: one outcome per hash, in the order of the hashes. */
export interface KeyLookupReply {
  readonly kind: "outcomes";
  readonly hashes: readonly string[];
  readonly outcomes: readonly AuthOutcome[];
}
