/** What every client of an OpenID Connect provider decides alike. */
import { type ClientAuth, ClientSecretBasic, ClientSecretPost, None, type ServerMetadata } from "openid-client";

/** Basic unless the provider says that it takes only the other one (OpenID Connect Core 9). */
export function clientAuthentication(secret: string | null): ClientAuth {
  if (secret === null) {
    return None();
  }
  const basic = ClientSecretBasic(secret);
  const post = ClientSecretPost(secret);
  return (server, client, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported;
    const takesBasic = methods === undefined || methods.includes("client_secret_basic");
    (takesBasic ? basic : post)(server, client, body, headers);
  };
}

/** `openid` always, and `offline_access` only where the provider does not say that it lacks it. */
export function scopeFor(server: ServerMetadata, wanted: string): string {
  const supported = server.scopes_supported;
  const scopes = new Set(["openid", ...wanted.split(/\s+/).filter((scope) => scope !== "")]);
  if (supported !== undefined && !supported.includes("offline_access")) {
    scopes.delete("offline_access");
  }
  return [...scopes].join(" ");
}
