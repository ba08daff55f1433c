/**
 * Browser login: `/auth/login`, `/auth/callback`, `/auth/refresh`, `/auth/logout`, `/auth/me`. Requests and
 * responses are plain data; the front end of the web server reads and writes them.
 *
 * GET  /auth/login?return_to=&issuer=  302 to the identity provider, or to itself by the name that it is known by
 * GET  /auth/callback?code=&state=     302 to return_to, with the cookies of the session
 * POST /auth/refresh                   200 {expires_at}, with new cookies
 * POST /auth/logout                    204, cookies deleted
 * GET  /auth/me                        200 {email, name, subject, is_admin, expires_at}
 *
 * Cookies: `id_token` for every path of the service, for as long as the token lives; `refresh_token`,
 * sealed, for /auth/refresh alone; `login_browser_<id>`, one for the ten minutes of each login (login-state.ts). Off
 * loopback that one is `__Host-login_browser_<id>`, which browsers take from this host over TLS alone: a
 * neighbouring host cannot plant it and have its own login completed here.
 */
import type { Caller } from "../../auth/caller.js";
import { isLoginId, loginLifeSeconds, LoginStates } from "../../auth/oidc/login-state.js";
import type { OidcLogin } from "../../auth/oidc/oidc-login.js";
import {
  createRefreshCookies,
  type RefreshableSession,
  type RefreshCookies,
  refreshLifeSeconds,
} from "../../auth/oidc/refresh-cookie.js";
import { idTokenCookie, type SessionOutcome, type WebSessions } from "../../auth/oidc/web-session.js";
import { ServiceError } from "../../runtime/errors.js";
import { isLoopbackHost } from "telemetry-service-client/shared/loopback";
import { cookieNames, readCookie, setCookie } from "../../wire/web/cookies.js";
import { type BrowserHeaders, checkBrowserSafety } from "./browser-safety.js";
import { RefreshSharing } from "./refresh-sharing.js";
import { safeReturnTo } from "./return-to.js";

/** A request below the base path. */
interface LoginRequest {
  /** In capitals. */
  readonly method: string;
  /** Without the base path: `/auth/login`. */
  readonly path: string;
  /** Without the question mark, as it was sent. */
  readonly query: string;
  /** By lower-case name. */
  readonly headers: BrowserHeaders & { readonly cookie?: string | undefined; readonly host?: string | undefined };
}

/** What to answer. */
export interface LoginResponse {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  /** JSON, or the empty string. */
  readonly body: string;
}

/** Options of {@link createLoginRoutes}. */
interface LoginRoutesOptions {
  readonly login: OidcLogin;
  readonly sessions: WebSessions;
  /**
   * `SVC_AUTH_REDIRECT_URI`: the address of /auth/callback as browsers see it. Cookies are for the
   * path in front of /auth/callback, and `Secure` unless it is on loopback.
   */
  readonly redirectUri: string;
  /** See `webOrigins`. */
  readonly allowedOrigins: ReadonlySet<string>;
  /** `SVC_STATE_SECRET`. */
  readonly stateSecret: string;
  /** @throws ServiceError UNAVAILABLE when that cannot be told. */
  readonly isAdmin: (caller: Caller) => Promise<boolean>;
  /** Milliseconds since the epoch. */
  readonly nowMs: () => number;
}

/** The login routes. */
export interface LoginRoutes {
  /** Answers a request whose path starts with `/auth/`. @throws ServiceError for every failure. */
  handle(request: LoginRequest): Promise<LoginResponse>;
}

const callbackPath = "/auth/callback";
const refreshCookie = "refresh_token";
/** What browsers keep of a cookie is 4096 bytes, name and attributes included. */
const maxCookieCharacters = 3900;
/** Most logins that a browser may have under way. */
const maxLoginsOfBrowser = 20;

type Handler = (request: LoginRequest) => Promise<LoginResponse>;

/** Every path below `/auth` and the one method that it takes. */
export const loginMethods = {
  "/auth/login": "GET",
  [callbackPath]: "GET",
  "/auth/refresh": "POST",
  "/auth/logout": "POST",
  "/auth/me": "GET",
} as const;

/** @throws ServiceError NOT_CONFIGURED for a redirect URI that does not end in /auth/callback. */
export function createLoginRoutes(o: LoginRoutesOptions): LoginRoutes {
  const routes = new LoginHandlers(o);
  const handlers: Readonly<Record<keyof typeof loginMethods, Handler>> = {
    "/auth/login": (request) => routes.login(request),
    [callbackPath]: (request) => routes.callback(request),
    "/auth/refresh": (request) => routes.refresh(request),
    "/auth/logout": (request) => routes.logout(request),
    "/auth/me": (request) => routes.me(request),
  };
  return {
    async handle(request) {
      if (!isLoginPath(request.path)) {
        throw new ServiceError("NOT_FOUND");
      }
      const method = loginMethods[request.path];
      if (request.method !== method) {
        const error = new ServiceError("METHOD_NOT_ALLOWED", `this path takes ${method}`);
        return json(405, { code: error.code, message: error.message }, [["Allow", method]]);
      }
      const refusal = checkBrowserSafety(request.method, request.headers, o.allowedOrigins);
      if (refusal !== null) {
        throw refusal;
      }
      return handlers[request.path](request);
    },
  };
}

function isLoginPath(path: string): path is keyof typeof loginMethods {
  return Object.hasOwn(loginMethods, path);
}

class LoginHandlers {
  readonly #o: LoginRoutesOptions;
  readonly #states: LoginStates;
  readonly #refreshCookies: RefreshCookies;
  readonly #refreshes: RefreshSharing<LoginResponse>;
  readonly #origin: string;
  /** Path of the service as browsers see it, without a slash at the end. */
  readonly #basePath: string;
  readonly #secure: boolean;
  readonly #browserCookiePrefix: string;

  constructor(o: LoginRoutesOptions) {
    this.#o = o;
    const url = new URL(o.redirectUri);
    if (!url.pathname.endsWith(callbackPath) || url.search !== "" || url.hash !== "") {
      throw new ServiceError(
        "NOT_CONFIGURED",
        `SVC_AUTH_REDIRECT_URI takes the address of ${callbackPath}, for example https://telemetry.example.com${callbackPath}`,
      );
    }
    this.#origin = url.origin;
    this.#basePath = url.pathname.slice(0, -callbackPath.length);
    this.#secure = !isLoopbackHost(url.hostname);
    this.#browserCookiePrefix = this.#secure ? "__Host-login_browser_" : "login_browser_";
    this.#states = new LoginStates({ secret: o.stateSecret, nowMs: o.nowMs });
    this.#refreshCookies = createRefreshCookies({ secret: o.stateSecret, nowMs: o.nowMs });
    this.#refreshes = new RefreshSharing({ nowMs: o.nowMs });
  }

  async login(request: LoginRequest): Promise<LoginResponse> {
    const query = new URLSearchParams(request.query);
    if (this.#hasOtherName(request.headers.host ?? "")) {
      return redirect(`${this.#origin}${this.#basePath}/auth/login?${query.toString()}`, []);
    }
    const returnTo = safeReturnTo(single(query, "return_to") ?? `${this.#basePath}/`, {
      origin: this.#origin,
      basePath: this.#basePath,
      allowedOrigins: this.#o.allowedOrigins,
    });
    if (returnTo === null) {
      throw new ServiceError("BAD_REQUEST", "return_to takes a path of this server, like /admin");
    }
    const issuer = this.#o.login.issuer(single(query, "issuer"));
    if (issuer === null) {
      throw new ServiceError("BAD_REQUEST", "this issuer is not accepted");
    }
    const begun = this.#states.begin({ issuer, returnTo });
    const location = await this.#o.login.authorizationUrl({ issuer, ...begun });
    // Browsers send the oldest first.
    const surplus = this.#loginsOf(request).slice(0, 1 - maxLoginsOfBrowser);
    return redirect(location, [
      this.#browserCookie(begun.id, begun.browser, loginLifeSeconds),
      ...surplus.map((id) => this.#browserCookie(id, "", 0)),
    ]);
  }

  async callback(request: LoginRequest): Promise<LoginResponse> {
    const query = new URLSearchParams(request.query);
    const state = single(query, "state");
    if (state === null) {
      throw new ServiceError("BAD_REQUEST", "state is missing");
    }
    // A state is redeemed by what the provider sends only.
    if (!query.has("code") && !query.has("error")) {
      throw new ServiceError("BAD_REQUEST", "code and error are missing");
    }
    const login = this.#states.redeem(state, (id) => this.#browserOf(request, id));
    const { id, issuer } = login;
    const tokens = await this.#o.login.exchange({
      issuer,
      query: request.query,
      state,
      nonce: login.nonce,
      codeVerifier: login.codeVerifier,
    });
    const session = accepted(await this.#checked(tokens.idToken));
    return redirect(login.returnTo, [
      this.#idTokenCookie(tokens.idToken, session.expiresAtMs),
      await this.#refreshCookie(
        tokens.refreshToken === null
          ? null
          : { issuer, subject: session.caller.subject, refreshToken: tokens.refreshToken },
      ),
      this.#browserCookie(id, "", 0),
    ]);
  }

  async refresh(request: LoginRequest): Promise<LoginResponse> {
    const value = readCookie(request.headers.cookie ?? "", refreshCookie);
    const sealed = typeof value === "string" ? value : "";
    // First, so that cookies that anybody may make up push out no refresh that is to be shared.
    const session = sealed === "" ? null : await this.#refreshCookies.open(sealed);
    if (session === null || this.#o.login.issuer(session.issuer) === null) {
      throw new ServiceError("UNAUTHENTICATED", "there is nothing to refresh; log in");
    }
    return this.#refreshes.run(sealed, () => this.#refreshOnce(session));
  }

  async #refreshOnce({ issuer, subject, refreshToken }: RefreshableSession): Promise<LoginResponse> {
    const tokens = await this.#o.login.refresh(issuer, refreshToken);
    const nextCookie = await this.#refreshCookie(
      tokens.refreshToken === null ? null : { issuer, subject, refreshToken: tokens.refreshToken },
    );
    const outcome = await this.#checked(tokens.idToken);
    if (outcome.kind === "unavailable") {
      // The provider may not take the old refresh token again.
      const { code, httpStatus, message } = uncheckable(outcome);
      const wait = ["Retry-After", String(outcome.retryAfterSeconds)] as const;
      return json(httpStatus, { code, message }, [wait, nextCookie]);
    }
    const session = accepted(outcome);
    // OpenID Connect Core 12.2: the same issuer and subject as before.
    if (session.caller.subject !== subject || session.caller.issuer !== issuer) {
      throw new ServiceError("UNAUTHENTICATED", "the refreshed identity is another one; log in");
    }
    return json(200, { expires_at: new Date(session.expiresAtMs).toISOString() }, [
      this.#idTokenCookie(tokens.idToken, session.expiresAtMs),
      nextCookie,
    ]);
  }

  logout(request: LoginRequest): Promise<LoginResponse> {
    return Promise.resolve({
      status: 204,
      headers: [
        ...common,
        this.#deleted(idTokenCookie, ""),
        this.#deleted(refreshCookie, "/auth/refresh"),
        ...this.#loginsOf(request).map((id) => this.#browserCookie(id, "", 0)),
      ],
      body: "",
    });
  }

  async me(request: LoginRequest): Promise<LoginResponse> {
    const session = accepted(await this.#o.sessions.caller(request.headers.cookie ?? ""));
    const { caller } = session;
    return json(200, {
      email: caller.email,
      name: session.displayName,
      subject: caller.subject,
      is_admin: await this.#o.isAdmin(caller),
      expires_at: new Date(session.expiresAtMs).toISOString(),
    });
  }

  async #checked(idToken: string): Promise<SessionOutcome> {
    if (idToken.length > maxCookieCharacters) {
      throw new ServiceError(
        "NOT_CONFIGURED",
        `the identity token is ${idToken.length} bytes, more than fits a cookie; let the provider put fewer claims into it`,
      );
    }
    return this.#o.sessions.verify(idToken);
  }

  /**
   * Whether a browser of this machine calls the server by another name than it comes back by (`localhost`,
   * `127.0.0.1`): it keeps cookies by name. The same port means that nothing in between has changed the name.
   */
  #hasOtherName(host: string): boolean {
    const came = URL.canParse(`http://${host}`) ? new URL(`http://${host}`) : null;
    const back = new URL(this.#origin);
    return (
      came !== null &&
      came.hostname !== back.hostname &&
      came.port === back.port &&
      isLoopbackHost(came.hostname) &&
      isLoopbackHost(back.hostname)
    );
  }

  #browserOf(request: LoginRequest, id: string): string | null {
    const value = readCookie(request.headers.cookie ?? "", `${this.#browserCookiePrefix}${id}`);
    return typeof value === "string" ? value : null;
  }

  /** Ids of the logins that the browser has under way. */
  #loginsOf(request: LoginRequest): readonly string[] {
    const prefix = this.#browserCookiePrefix;
    return cookieNames(request.headers.cookie ?? "")
      .filter((name) => name.startsWith(prefix) && isLoginId(name.slice(prefix.length)))
      .map((name) => name.slice(prefix.length));
  }

  /** A `__Host-` cookie is for every path. */
  #browserCookie(id: string, value: string, maxAgeSeconds: number): readonly [string, string] {
    const path = this.#secure ? "/" : `${this.#basePath}/auth`;
    const options = { path, secure: this.#secure, maxAgeSeconds };
    return ["Set-Cookie", setCookie(`${this.#browserCookiePrefix}${id}`, value, options)];
  }

  #idTokenCookie(idToken: string, expiresAtMs: number): readonly [string, string] {
    return this.#cookie(idTokenCookie, idToken, "", (expiresAtMs - this.#o.nowMs()) / 1000);
  }

  /** Deletes what there was when there is nothing to refresh with, or it fits no cookie. */
  async #refreshCookie(session: RefreshableSession | null): Promise<readonly [string, string]> {
    const value = session === null ? "" : await this.#refreshCookies.seal(session);
    return value === "" || value.length > maxCookieCharacters
      ? this.#deleted(refreshCookie, "/auth/refresh")
      : this.#cookie(refreshCookie, value, "/auth/refresh", refreshLifeSeconds);
  }

  #cookie(name: string, value: string, pathBelowBase: string, maxAgeSeconds: number): readonly [string, string] {
    const path = `${this.#basePath}${pathBelowBase}` || "/";
    return ["Set-Cookie", setCookie(name, value, { path, secure: this.#secure, maxAgeSeconds })];
  }

  #deleted(name: string, pathBelowBase: string): readonly [string, string] {
    return this.#cookie(name, "", pathBelowBase, 0);
  }
}

/** Nothing here is for caches, and no address with a code or a state for the next page. */
const common: readonly (readonly [string, string])[] = [
  ["Cache-Control", "no-store"],
  ["Referrer-Policy", "no-referrer"],
];

function json(
  status: number,
  body: Readonly<Record<string, unknown>>,
  headers: readonly (readonly [string, string])[] = [],
): LoginResponse {
  return {
    status,
    headers: [...common, ["Content-Type", "application/json"], ...headers],
    body: JSON.stringify(body),
  };
}

function redirect(location: string, headers: readonly (readonly [string, string])[]): LoginResponse {
  return { status: 302, headers: [...common, ["Location", location], ...headers], body: "" };
}

function accepted(outcome: SessionOutcome): Extract<SessionOutcome, { kind: "ok" }> {
  if (outcome.kind === "ok") {
    return outcome;
  }
  if (outcome.kind === "rejected") {
    throw new ServiceError("UNAUTHENTICATED", outcome.message);
  }
  throw uncheckable(outcome);
}

function uncheckable({ retryAfterSeconds }: Extract<SessionOutcome, { kind: "unavailable" }>): ServiceError {
  return new ServiceError("UNAVAILABLE", "identity tokens cannot be checked now; try again", { retryAfterSeconds });
}

/** A parameter that is given at most once. */
function single(query: URLSearchParams, name: string): string | null {
  const [value, ...more] = query.getAll(name);
  if (more.length > 0) {
    throw new ServiceError("BAD_REQUEST", `${name} is given more than once`);
  }
  return value ?? null;
}
