/** Who a command acts as: the key or the login that its settings and files name. */
import { access } from "node:fs/promises";
import path from "node:path";

import { type AuthProvider, StaticKeyProvider, noToken, staticKey } from "../auth/auth-provider.js";
import { OidcAuthProvider } from "../auth/oidc-auth-provider.js";
import { readProfile } from "../auth/profiles.js";
import { readIdentityToken, readLogin, tokenFilePath, userDirectory } from "../auth/token-file.js";
import { type CommandContext, UsageError } from "./context.js";
import type { LoginValues } from "./settings.js";

/** Where the tokens of the profile are. @throws CredentialError for a profile that the configuration does not define */
export async function chosenTokenFile(values: LoginValues, context: CommandContext): Promise<string> {
  const directory = userDirectory(context.homeDirectory);
  if (values.profile !== null) {
    // A typing error must not make somebody act as another.
    await readProfile(path.join(directory, "config.json"), values.profile);
  }
  return tokenFilePath(directory, values.profile);
}

/**
 * The login of the settings, or that of the token file; null where neither names a provider.
 * @param login what to do without tokens; `ask`: log in where somebody can read the address
 * @throws CredentialError, UsageError
 */
export async function chosenLogin(
  values: LoginValues,
  context: CommandContext,
  login: "ask" | "log-in",
): Promise<OidcAuthProvider | null> {
  const { terminal } = context;
  const tokenFile = await chosenTokenFile(values, context);
  if ((values.issuer === null) !== (values.clientId === null)) {
    throw new UsageError("SVC_OIDC_ISSUER and SVC_OIDC_CLIENT_ID belong together");
  }
  const found = values.issuer === null ? await readLogin(tokenFile) : null;
  const stored = found === null || typeof found === "string" ? null : found;
  const issuer = values.issuer ?? stored?.issuer ?? null;
  const clientId = values.clientId ?? stored?.clientId ?? null;
  if (issuer === null || clientId === null) {
    return null;
  }
  const never = login === "ask" && terminal.stderr.isTTY !== true;
  const { clientSecret, oidcAudience: audience, scope, callbackPort } = values;
  return new OidcAuthProvider({
    issuer,
    clientId,
    clientSecret,
    audience,
    scope,
    tokenFile,
    callbackPort,
    login: never ? "never" : values.device ? "device" : "browser",
    notify: (line) => terminal.stderr.write(`telemetry: ${line}\n`),
    ...(values.noBrowser ? { openBrowser: () => undefined } : {}),
  });
}

/**
 * What the analytics server is sent: the key, the key file of the profile, or the login.
 * @throws CredentialError, UsageError
 */
export async function chosenAuth(
  values: LoginValues & { readonly analyticsApiKey: string | null },
  context: CommandContext,
): Promise<AuthProvider> {
  const directory = userDirectory(context.homeDirectory);
  const profile =
    values.profile === null ? null : await readProfile(path.join(directory, "config.json"), values.profile);
  if (values.analyticsApiKey !== null) {
    return staticKey(values.analyticsApiKey);
  }
  const file = profile?.apiKeyFile ?? null;
  if (file !== null) {
    return new StaticKeyProvider(path.resolve(directory, file));
  }
  return (await chosenLogin(values, context, "ask")) ?? noToken;
}

/** An identity token for the web server, and where it is from. @throws CredentialError, UsageError */
export async function identityToken(
  values: LoginValues & { readonly tokenFile: string | null },
  context: CommandContext,
): Promise<{ readonly idToken: string; readonly tokenFile: string }> {
  if (values.tokenFile !== null) {
    const tokenFile = path.resolve(context.workingDirectory, values.tokenFile);
    return { idToken: await readIdentityToken(tokenFile), tokenFile };
  }
  const tokenFile = await chosenTokenFile(values, context);
  const login = await chosenLogin(values, context, "ask");
  const idToken = await (login === null
    ? readIdentityToken(tokenFile)
    : login.identityToken(context.terminal.interrupted));
  return { idToken, tokenFile };
}

/**
 * What to do in a directory where development mode was started, or null. The file is only named, never read: a
 * command must not go to another server because of the directory it was typed in.
 */
export async function developmentHint(context: CommandContext): Promise<string | null> {
  const file = path.join("data", "dev.env");
  try {
    await access(path.resolve(context.workingDirectory, file));
    return `run ". ${file}" first to use the development server started here`;
  } catch {
    // Missing or out of reach: in both cases there is nothing to point to.
    return null;
  }
}
