/** Who is calling, from the metadata of a call or the payload of a handshake. */
import { requestOrigin } from "../../auth/audit.js";
import type { Authenticator } from "../../auth/authenticator.js";
import type { QueryCaller } from "../../query/statement.js";
import { ServiceError } from "../../runtime/errors.js";
import { decodeBasicAuth } from "../../wire/flight/flight-protobuf.js";
import type { CallHead } from "./context.js";

/** The caller, and the token to send from now on. */
interface AuthenticatedCaller extends QueryCaller {
  /** Without the scheme; empty under `--disable-auth`. */
  readonly token: string;
}

/**
 * Authenticates a call by its `authorization`: `Bearer <key>`, or `Basic` whose password is the key.
 * @throws ServiceError UNAUTHENTICATED; UNAVAILABLE when nobody can tell at the moment
 */
export async function authenticateCall(authenticator: Authenticator, call: CallHead): Promise<AuthenticatedCaller> {
  const value = call.metadata.get("authorization")[0];
  const authorization = bearerOf(typeof value === "string" ? value : "");
  return authenticate(authenticator, authorization, call);
}

/**
 * Authenticates a handshake: by its metadata, or by a BasicAuth payload (Flight.proto) where there is none.
 * @throws ServiceError as {@link authenticateCall}
 */
export async function authenticateHandshake(
  authenticator: Authenticator,
  call: CallHead,
  payload: Uint8Array,
): Promise<AuthenticatedCaller> {
  if (call.metadata.get("authorization").length > 0 || payload.length === 0) {
    return authenticateCall(authenticator, call);
  }
  const { password } = decodeBasicAuth(payload);
  return authenticate(authenticator, `Bearer ${password}`, call);
}

async function authenticate(
  authenticator: Authenticator,
  authorization: string,
  call: CallHead,
): Promise<AuthenticatedCaller> {
  const { metadata } = call;
  const outcome = authenticator.authenticateNow(authorization) ?? (await authenticator.authenticate(authorization));
  switch (outcome.kind) {
    case "ok":
      return {
        principal: outcome.principal,
        token: authorization.replace(/^bearer +/iu, ""),
        client: String(metadata.get("user-agent")[0] ?? ""),
        origin: requestOrigin(
          // Without the port.
          call.getPeer().replace(/:\d+$/u, ""),
          metadata.get("x-forwarded-for").map(String),
        ),
      };
    case "rejected":
      throw new ServiceError("UNAUTHENTICATED", outcome.message);
    case "forbidden":
      throw new ServiceError("FORBIDDEN", outcome.message);
    case "unavailable":
      throw new ServiceError("UNAVAILABLE", "credentials cannot be checked at the moment; try again", {
        retryAfterSeconds: outcome.retryAfterSeconds,
      });
  }
}

/** A Basic credential as a bearer one: its password is the key, whatever the user name. */
function bearerOf(authorization: string): string {
  const basic = /^basic +(?<encoded>[A-Za-z0-9+/_-]+=*) *$/iu.exec(authorization)?.groups?.["encoded"];
  if (basic === undefined) {
    return authorization;
  }
  const text = Buffer.from(basic, "base64").toString("utf8");
  return `Bearer ${text.slice(text.indexOf(":") + 1)}`;
}
