/** What can be wrong with a credential; the message says it in a sentence. */
export type CredentialErrorCode =
  /** A key that no header can carry. */
  | "INVALID_KEY"
  /** A file that is missing, or is not what it should be. */
  | "FILE"
  /** A file that others can read. */
  | "FILE_MODE"
  /** There are no tokens, or none that can be refreshed, and nobody may be asked to log in. */
  | "LOGIN_REQUIRED"
  /** The provider, or the person, refused the login. */
  | "LOGIN_REFUSED"
  /** The port that the browser comes back to is taken. */
  | "PORT_TAKEN"
  /** The provider cannot be reached, or answered with something else than it should. */
  | "PROVIDER"
  /** This machine's clock and the provider's differ. */
  | "CLOCK"
  /** The caller gave up. */
  | "CANCELLED";

/** A credential that cannot be used. The message is one sentence, says what to do, and never holds the credential. */
export class CredentialError extends Error {
  override readonly name = "CredentialError";
  readonly code: CredentialErrorCode;

  constructor(code: CredentialErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
