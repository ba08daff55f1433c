/** A statement, and who asks for it. */
import type { RequestOrigin } from "../auth/audit.js";
import type { Principal } from "../auth/principal.js";

/** Who asks, and with what. */
export interface QueryCaller {
  readonly principal: Principal;
  /** What the client says it is (`user-agent`); for the log and the deny list only. */
  readonly client: string;
  /** For the audit. */
  readonly origin: RequestOrigin;
}

/** A statement as it is judged, planned and run. */
export interface QueryStatement {
  readonly sql: string;
  readonly caller: QueryCaller;
  /** Email, subject or key of the caller. */
  readonly identity: string;
  readonly admin: boolean;
  /** Gives it up. */
  readonly signal: AbortSignal;
}
