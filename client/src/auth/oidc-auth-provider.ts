/**
 * Tokens of a person who logs in at an OpenID Connect provider, kept in a file between programs.
 *
 * - A token that lives for five minutes more is used as it is; otherwise it is refreshed. One that lives for less
 *   than ten minutes altogether is refreshed after half of its life.
 * - Within a process all callers wait for one refresh. Between processes a lock file lets one refresh at a time, and
 *   who waited for it finds the new tokens in the file: providers take each refresh token once.
 * - Without tokens, or when the provider no longer takes the refresh token, the person logs in, once. When that is
 *   not wanted (`login: "never"`), the error says what to do.
 * - What a server refuses although it has not expired was revoked: it is replaced by a refresh or a login, and when
 *   the server refuses the new one as well, its answer stands.
 */
import { followSignals, unlessAborted } from "../shared/abort.js";
import { escapeControls } from "../shared/escape-controls.js";
import { type AuthProvider, bearer } from "./auth-provider.js";
import { CredentialError } from "./credential-error.js";
import { defaultCallbackPort, listenForCallback } from "./loopback-callback.js";
import { type OidcProvider, discoverProvider, tokenLifetime } from "./oidc-protocol.js";
import { openBrowser } from "./open-browser.js";
import { type StoredLogin, readLogin, tokenFilePath, underTokenLock, userDirectory, writeLogin } from "./token-file.js";

const refreshBeforeSeconds = 300;
/** A provider that is down is asked again after so long: each caller that asks it waits for its time limit. */
const retryAfterSeconds = 30;

/** Options of {@link OidcAuthProvider}. */
export interface OidcAuthOptions {
  readonly issuer: string;
  readonly clientId: string;
  /** Some providers require one even with PKCE. */
  readonly clientSecret?: string | null;
  /** Default `~/.telemetry/tokens.json`. */
  readonly tokenFile?: string;
  /** API audience, which some providers require. */
  readonly audience?: string | null;
  /** Default `openid email profile offline_access`. */
  readonly scope?: string;
  /** How a person logs in: by a browser on this machine (the default), by one elsewhere, or not at all. */
  readonly login?: "browser" | "device" | "never";
  /** Port on loopback to which the browser comes back. Default 48080; the provider has to allow it. */
  readonly callbackPort?: number;
  /** Shows the login page; by default it opens the system's browser. */
  readonly openBrowser?: (url: string) => void;
  /** Takes what a person has to read, one line each. Default: standard error. */
  readonly notify?: (line: string) => void;
  /** How long to wait for a person. Default five minutes. */
  readonly loginTimeoutMs?: number;
  /** Milliseconds since the Unix epoch. */
  readonly now?: () => number;
}

/** See the head of the file. Every method throws CredentialError. */
export class OidcAuthProvider implements AuthProvider {
  readonly #o: OidcAuthOptions;
  readonly #file: string;
  #provider: Promise<OidcProvider> | null = null;
  #login: StoredLogin | null = null;
  readonly #pending = new Map<string, PendingLogin>();
  /** When to try again after a refresh that failed, in seconds since the Unix epoch. */
  #retryAt = 0;
  /** What {@link replace} gave last: refused as well, it is not replaced again. */
  #replacement: string | null = null;

  constructor(o: OidcAuthOptions) {
    this.#o = o;
    this.#file = o.tokenFile ?? tokenFilePath(userDirectory(), null);
  }

  async authorization(signal?: AbortSignal): Promise<string> {
    return bearer(await this.identityToken(signal));
  }

  /** The token to send: the identity token, or the access token of a provider that gives none. */
  async identityToken(signal?: AbortSignal): Promise<string> {
    if (this.#login === null || (this.#isDue(this.#login) && this.#now() >= this.#retryAt)) {
      this.#login = await this.#once("renew", (given) => this.#renewed(null, given), signal);
    }
    return tokenOf(this.#login);
  }

  async replace(authorization: string, signal?: AbortSignal): Promise<string | null> {
    if (authorization === this.#replacement) {
      return null;
    }
    const refused = authorization.replace(/^Bearer /, "");
    this.#login = await this.#once(`replace ${refused}`, (given) => this.#renewed(refused, given), signal);
    this.#replacement = bearer(tokenOf(this.#login));
    return this.#replacement;
  }

  /** Lets the person log in, whatever tokens there are, and keeps the new ones. */
  async logIn(signal?: AbortSignal): Promise<StoredLogin> {
    this.#login = await this.#newLogin(null, signal);
    return this.#login;
  }

  /** Whoever needs a person to log in waits for the same login. */
  async #newLogin(why: string | null, signal: AbortSignal | undefined): Promise<StoredLogin> {
    return await this.#once("log in", (given) => this.#loggedIn(why, given), signal);
  }

  /** Who comes while work of this kind runs gets its result. It ends when nobody waits any more. */
  async #once(
    kind: string,
    work: (abandoned: AbortSignal) => Promise<StoredLogin>,
    signal: AbortSignal | undefined,
  ): Promise<StoredLogin> {
    const pending = this.#pending.get(kind) ?? this.#begin(kind, work);
    pending.callers++;
    if (signal === undefined) {
      return await pending.result;
    }
    return await unlessAborted(pending.result, signal, () => {
      pending.callers--;
      if (pending.callers === 0) {
        // Who comes from now on does not share its end.
        this.#forget(kind, pending);
        pending.abandoned.abort();
      }
      return new CredentialError("CANCELLED", "the login was cancelled");
    });
  }

  #begin(kind: string, work: (abandoned: AbortSignal) => Promise<StoredLogin>): PendingLogin {
    const abandoned = new AbortController();
    const result = work(abandoned.signal).finally(() => this.#forget(kind, pending));
    const pending: PendingLogin = { result, abandoned, callers: 0 };
    this.#pending.set(kind, pending);
    return pending;
  }

  #forget(kind: string, pending: PendingLogin): void {
    if (this.#pending.get(kind) === pending) {
      this.#pending.delete(kind);
    }
  }

  /** @param refused a token that a server refused, not to be used any more */
  async #renewed(refused: string | null, abandoned: AbortSignal): Promise<StoredLogin> {
    const usable = (login: StoredLogin): boolean => tokenOf(login) !== refused && !this.#isDue(login);
    const found = await this.#stored();
    if (found.login !== null && usable(found.login)) {
      return found.login;
    }
    const refreshed =
      found.login === null ? null : await underTokenLock(this.#file, () => this.#refreshed(refused, usable), abandoned);
    return refreshed ?? (await this.#newLogin(found.why, abandoned));
  }

  async #refreshed(refused: string | null, usable: (login: StoredLogin) => boolean): Promise<StoredLogin | null> {
    // Another process may have been faster.
    const { login } = await this.#stored();
    if (login === null || usable(login)) {
      return login;
    }
    const stillValid = tokenOf(login) !== refused && this.#now() < login.expiresAt;
    if (login.refreshToken === null) {
      return stillValid ? login : null;
    }
    try {
      const next = await (await this.#discovered()).refresh(login);
      if (next !== null) {
        await writeLogin(this.#file, next);
      }
      return next;
    } catch (error) {
      // A provider that is down, or refuses for now, does no harm for as long as the old token lasts.
      if (stillValid && error instanceof CredentialError) {
        this.#retryAt = Math.min(this.#now() + retryAfterSeconds, login.expiresAt);
        return login;
      }
      throw error;
    }
  }

  async #stored(): Promise<{ readonly login: StoredLogin | null; readonly why: string }> {
    const found = await readLogin(this.#file);
    if (found === "missing") {
      return { login: null, why: "you are not logged in" };
    }
    if (found === "damaged") {
      return { login: null, why: `the token file ${this.#file} is damaged` };
    }
    if (found.issuer !== this.#o.issuer || found.clientId !== this.#o.clientId) {
      return { login: null, why: `the tokens in ${this.#file} are from ${found.issuer}, client ${found.clientId}` };
    }
    return { login: found, why: `${found.issuer} no longer accepts the login` };
  }

  async #loggedIn(why: string | null, abandoned: AbortSignal): Promise<StoredLogin> {
    const how = this.#o.login ?? "browser";
    if (how === "never") {
      throw new CredentialError("LOGIN_REQUIRED", `${why ?? "a login is needed"}; run: telemetry login`);
    }
    if (why !== null) {
      this.#notify(`${why}: log in`);
    }
    const { controller, release } = followSignals([abandoned]);
    // Unlike that of AbortSignal.timeout, this timer keeps the process alive while somebody logs in.
    const timer = setTimeout(
      () => controller.abort(new DOMException("nobody logged in", "TimeoutError")),
      this.#o.loginTimeoutMs ?? 300_000,
    );
    try {
      const { signal } = controller;
      const login = await (how === "device" ? this.#byDevice(signal) : this.#byBrowser(signal));
      await underTokenLock(this.#file, () => writeLogin(this.#file, login), abandoned);
      return login;
    } finally {
      clearTimeout(timer);
      release();
    }
  }

  async #byBrowser(signal: AbortSignal): Promise<StoredLogin> {
    const listener = await listenForCallback(this.#o.callbackPort ?? defaultCallbackPort);
    try {
      const login = await (await this.#discovered()).startLogin(listener.redirectUri);
      const callback = listener.wait(login.state, signal);
      this.#notify(`log in at ${login.url}`);
      const show = this.#o.openBrowser ?? ((url: string) => openBrowser(url, process.env));
      show(login.url);
      const redirect = await callback;
      try {
        const stored = await login.finish(redirect.url);
        redirect.answer(null);
        return stored;
      } catch (error) {
        redirect.answer(error instanceof CredentialError ? error.message : "the login failed");
        throw error;
      }
    } finally {
      listener.close();
    }
  }

  async #byDevice(signal: AbortSignal): Promise<StoredLogin> {
    const login = await (await this.#discovered()).startDeviceLogin();
    const { device } = login;
    this.#notify(`log in at ${device.verification_uri_complete ?? device.verification_uri}`);
    this.#notify(`the code is ${device.user_code}`);
    return await login.finish(signal);
  }

  async #discovered(): Promise<OidcProvider> {
    const { issuer, clientId, clientSecret = null, audience = null } = this.#o;
    const scope = this.#o.scope ?? "openid email profile offline_access";
    this.#provider ??= discoverProvider({ issuer, clientId, clientSecret, audience, scope });
    try {
      return await this.#provider;
    } catch (error) {
      // The next one asks again.
      this.#provider = null;
      throw error;
    }
  }

  #isDue(login: StoredLogin): boolean {
    const halfLife = (tokenLifetime(tokenOf(login)) ?? Number.POSITIVE_INFINITY) / 2;
    return this.#now() >= login.expiresAt - Math.min(refreshBeforeSeconds, halfLife);
  }

  #now(): number {
    return (this.#o.now ?? Date.now)() / 1000;
  }

  /** A line may hold the provider's words. */
  #notify(line: string): void {
    const notify = this.#o.notify ?? ((text: string) => process.stderr.write(`telemetry: ${text}\n`));
    notify(escapeControls(line));
  }
}

function tokenOf(login: StoredLogin): string {
  return login.idToken ?? login.accessToken;
}

/** Work that callers wait for. */
interface PendingLogin {
  readonly result: Promise<StoredLogin>;
  readonly abandoned: AbortController;
  callers: number;
}
