/** What the front end knows about a body. */
import type { OtlpFormat, OtlpSignal } from "../wire/otlp/rpc-status.js";
import type { BodyEncoding } from "./request.js";

/** See the head of this file. */
export interface BodyHead {
  readonly signal: OtlpSignal;
  readonly format: OtlpFormat;
  readonly encoding: BodyEncoding;
  /** Write audience of the credential; null leaves the rows unstamped. */
  readonly audience: string | null;
}
