/**
 * The OpenID Connect provider itself, by oidc-provider: authorization code flow with PKCE, device flow (RFC 8628) for the
 * command line, refresh tokens that change with every use, revocation. Nothing imports this file before somebody logs in: the library takes 30 MB.
 *
 * No session outlasts a login: every one asks which account, so that people can change between them. What stands between
 * a page on the internet and these accounts is the click: the login page cannot be framed, and its form takes no post
 * of another origin.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

import { errors, interactionPolicy, type OidcContext, Provider } from "oidc-provider";

import type { Logger } from "../runtime/log/log.js";
import { accountOf, accounts } from "./accounts.js";
import { clientNames, commandLineClientId, webClientId } from "./clients.js";
import { codePage, donePage, errorPage, loginPage, type Page } from "./login-page.js";
import type { IdentitySecrets } from "./secrets.js";
import type { TokenStore } from "./token-store.js";

/** What {@link createProvider} needs. */
export interface ProviderOptions {
  /** `http://127.0.0.1:port`, without a slash at its end. */
  readonly issuer: string;
  readonly secrets: IdentitySecrets;
  readonly store: TokenStore;
  /** Where the web server takes browsers back. */
  readonly webRedirectUri: string;
  readonly logger: Logger;
}

/** Answers a request; never rejects. */
export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

const loginPath = "/login/";
const minute = 60;
const hour = 60 * minute;
const month = 30 * 24 * hour;
const maxFormBytes = 1024;

/** Makes the provider. */
export function createProvider(o: ProviderOptions): RequestHandler {
  const provider = new Provider(o.issuer, configuration(o));
  const failed = (error: unknown): void => {
    o.logger.error({ err: error }, "the identity provider failed");
  };
  provider.on("error", failed);
  provider.on("server_error", (_context, error) => failed(error));
  const handle = provider.callback();
  return async (request, response) => {
    try {
      const { pathname } = new URL(request.url ?? "/", o.issuer);
      if (pathname.startsWith(loginPath)) {
        await logIn(provider, o.issuer, request, response);
      } else {
        await handle(request, response);
      }
    } catch (error) {
      failed(error);
      send(response, errorPage(500, "The identity provider failed; its log says why."));
    }
  };
}

function configuration(o: ProviderOptions): Record<string, unknown> {
  return {
    adapter: (model: string) => o.store.model(model),
    clients: [
      {
        client_id: webClientId,
        client_secret: o.secrets.clientSecret,
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        redirect_uris: [o.webRedirectUri],
      },
      {
        client_id: commandLineClientId,
        token_endpoint_auth_method: "none",
        application_type: "native",
        grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        response_types: ["code"],
        // Any port: the library compares loopback addresses of native clients without it.
        redirect_uris: ["127.0.0.1", "localhost", "[::1]"].map((host) => `http://${host}:48080/callback`),
      },
    ],
    jwks: { keys: [o.secrets.signingKey] },
    // Claims in the identity token itself: it is all that the servers look at.
    conformIdTokenClaims: false,
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    findAccount: (_context: unknown, id: string) => {
      const account = accounts.find((known) => known.id === id);
      return account === undefined
        ? undefined
        : {
            accountId: id,
            claims: () => ({ sub: id, email: account.email, email_verified: true, name: account.name }),
          };
    },
    cookies: {
      keys: [o.secrets.cookieKey],
      // A session is known to the pages of the device flow only, which ends it: see the head of the file.
      long: { path: "/device", httpOnly: true, sameSite: "lax" },
      short: { httpOnly: true, sameSite: "lax" },
    },
    features: {
      devInteractions: { enabled: false },
      deviceFlow: deviceFlow(),
      rpInitiatedLogout: { enabled: false },
      revocation: {
        enabled: true,
        allowedPolicy: (
          _context: unknown,
          client: { readonly clientId: string },
          token: { readonly clientId: string },
        ) => client.clientId === token.clientId,
      },
    },
    interactions: {
      url: (_context: unknown, interaction: { readonly uid: string }) => `${loginPath}${interaction.uid}`,
      policy: loginPolicy(),
    },
    loadExistingGrant,
    clientBasedCORS: () => false,
    pkce: { required: () => true },
    rotateRefreshToken: () => true,
    expiresWithSession: () => false,
    renderError: (context: OidcContext, out: { readonly error_description?: string; readonly error: string }) => {
      show(context, errorPage(400, `${out.error_description ?? out.error}. Begin the login again.`));
    },
    ttl: {
      AccessToken: hour,
      AuthorizationCode: minute,
      DeviceCode: 10 * minute,
      IdToken: hour,
      RefreshToken: month,
      Grant: month,
      Interaction: 10 * minute,
      Session: hour,
    },
  };
}

/** The pages of the device flow: the code, which the library puts into a form of its own, and the end. */
function deviceFlow(): Record<string, unknown> {
  const ask = (context: OidcContext, form: string, _out: unknown, error: unknown): void => {
    const problem = error === undefined ? "" : "There is no such code, or not any more. ";
    const sentence = `${problem}Enter the code that the command line shows.`;
    // The page's policy allows no script.
    show(context, codePage({ form: form.replace(/ onfocus="[^"]*"/, ""), formId: "op.deviceInputForm", sentence }));
  };
  const confirm = (context: OidcContext, form: string, _client: unknown, _device: unknown, code: string): void => {
    const sentence = `Go on if the command line shows the code ${code}.`;
    show(context, codePage({ form, formId: "op.deviceConfirmForm", sentence }));
  };
  const finish = async (context: OidcContext): Promise<void> => {
    await context.oidc.session?.destroy();
    show(context, donePage());
  };
  return { enabled: true, userCodeInputSource: ask, userCodeConfirmSource: confirm, successSource: finish };
}

/** Asks once for each login, whichever prompts the client wants: the click on an account answers them all. */
function loginPolicy(): readonly unknown[] {
  const { Check, Prompt } = interactionPolicy;
  const always = new Check(
    "account",
    "somebody has to choose an account",
    (context) => context.oidc.result?.login === undefined,
  );
  return [
    new Prompt({ name: "login", requestable: true }, always),
    new Prompt({ name: "consent", requestable: true }),
    new Prompt({ name: "select_account", requestable: true }),
  ];
}

const answered = { consent: {}, select_account: {} };

/** Grants what is asked for: both clients are the service's own. */
async function loadExistingGrant({ oidc }: OidcContext): Promise<unknown> {
  const { account, client, params, provider } = oidc;
  if (account === undefined || client === undefined) {
    return undefined;
  }
  const grant = new provider.Grant({ accountId: account.accountId, clientId: client.clientId });
  grant.addOIDCScope(params?.scope ?? "openid");
  await grant.save();
  return grant;
}

async function logIn(
  provider: Provider,
  issuer: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { uid, params } = await provider.interactionDetails(request, response).catch((error: unknown) => {
    if (error instanceof errors.SessionNotFound) {
      return { uid: null, params: {} };
    }
    throw error;
  });
  const { pathname } = new URL(request.url ?? "/", issuer);
  if (uid === null || pathname !== `${loginPath}${uid}`) {
    send(response, errorPage(400, "This login has ended, or another browser began it. Begin it again."));
  } else if (request.method === "GET" || request.method === "HEAD") {
    send(response, loginPage({ action: pathname, client: clientNames[params.client_id ?? ""] ?? "client" }));
  } else if (request.method !== "POST") {
    response.setHeader("Allow", "GET, HEAD, POST");
    send(response, errorPage(405, "This page takes a click on an account."));
  } else if (![undefined, `http://${request.headers.host}`].includes(request.headers.origin)) {
    send(response, errorPage(403, "Another site cannot log you in here."));
  } else {
    const account = accountOf(new URLSearchParams(await readForm(request)).get("account") ?? "");
    if (account === null) {
      send(response, errorPage(400, "There is no such account."));
      return;
    }
    const login = { accountId: account.id, remember: false };
    await provider.interactionFinished(request, response, { login, ...answered }, { mergeWithLastSubmission: false });
  }
}

/** The body of a post, cut after what a form of ours can have. */
async function readForm(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8") as AsyncIterable<string>) {
    text += chunk.slice(0, maxFormBytes - text.length);
  }
  return text;
}

function show(context: OidcContext, { headers, body }: Page): void {
  context.set(headers);
  context.body = body;
}

function send(response: ServerResponse, { status, headers, body }: Page): void {
  if (!response.headersSent) {
    response.writeHead(status, headers);
  }
  response.end(body);
}
