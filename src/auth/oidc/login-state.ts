/**
 * The state of browser logins (OpenID Connect Core 3.1.2.1, RFC 6749 10.12, RFC 7636).
 *
 * A login is begun -> redeemed, or it expires. Between the two the server remembers nothing: the
 * `state` parameter carries issuer, return address and expiry under an HMAC, and the hash of a random
 * value that only the browser holds, in a cookie of this login alone. So a state works in the browser it was
 * made for and in no other, and of several tabs each ends its own login. Nonce and PKCE verifier are derived from
 * the secret, the login's id and that random value: neither travels, and both are there again when the browser
 * comes back.
 *
 * - A state is redeemed once. The ids of redeemed states are kept until they expire; before the code is
 *   exchanged, so that two callbacks with one state cannot both go on.
 * - Of other processes with the same secret, after a restart, and where so many were redeemed that the oldest were
 *   forgotten, the deleted cookie and the provider's own one-time code keep a state from working twice.
 */
import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";

import { ServiceError } from "../../runtime/errors.js";

const lifeMs = 10 * 60_000;
const browserBytes = 32;
const maxStateCharacters = 8192;

/** What a login needs on its way to the provider. */
interface BegunLogin {
  /** Names the browser's cookie of this login. */
  readonly id: string;
  readonly state: string;
  /** The value of that cookie. */
  readonly browser: string;
  readonly nonce: string;
  readonly codeVerifier: string;
}

/** What a login needs when it comes back. */
interface RedeemedLogin {
  readonly issuer: string;
  readonly returnTo: string;
  readonly nonce: string;
  readonly codeVerifier: string;
}

/** Options of {@link LoginStates}. */
interface LoginStatesOptions {
  /** `SVC_STATE_SECRET`. */
  readonly secret: string;
  /** Milliseconds since the epoch. */
  readonly nowMs: () => number;
  /** Most redeemed states remembered; the oldest are forgotten first. Default 100000. */
  readonly maxRedeemed?: number;
}

/** Seconds that a browser has for its login. */
export const loginLifeSeconds = lifeMs / 1000;

interface StatePayload {
  readonly id: string;
  readonly issuer: string;
  readonly returnTo: string;
  readonly expiresAtMs: number;
  readonly browserHash: string;
}

/** A key of its own for each purpose, from the one secret (RFC 5869). */
export function deriveKey(secret: string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", secret, "", `telemetry-service ${purpose}`, 32));
}

/** See the head of the file. */
export class LoginStates {
  readonly #o: LoginStatesOptions;
  readonly #macKey: Uint8Array;
  readonly #derivationKey: Uint8Array;
  readonly #maxRedeemed: number;
  /** Expiry by id, the first redeemed first. */
  readonly #redeemed = new Map<string, number>();
  #sweptAtMs = Number.NEGATIVE_INFINITY;

  constructor(o: LoginStatesOptions) {
    this.#o = o;
    this.#macKey = deriveKey(o.secret, "login state");
    this.#derivationKey = deriveKey(o.secret, "login nonce and verifier");
    this.#maxRedeemed = o.maxRedeemed ?? 100_000;
  }

  /** Begins a login. */
  begin(o: { readonly issuer: string; readonly returnTo: string }): BegunLogin {
    const browser = randomBytes(browserBytes).toString("base64url");
    const payload: StatePayload = {
      id: randomBytes(16).toString("base64url"),
      issuer: o.issuer,
      returnTo: o.returnTo,
      expiresAtMs: this.#o.nowMs() + lifeMs,
      browserHash: hashOf(browser),
    };
    const text = Buffer.from(JSON.stringify(payload)).toString("base64url");
    return {
      id: payload.id,
      state: `${text}.${this.#mac(text).toString("base64url")}`,
      browser,
      ...this.#secrets(payload.id, browser),
    };
  }

  /**
   * Redeems a state, once.
   * @param browserOf the value that the browser holds for a login, by its id; null: none
   * @throws ServiceError BAD_REQUEST for a state that is forged, expired, used, or of another browser.
   */
  redeem(state: string, browserOf: (id: string) => string | null): RedeemedLogin & Pick<BegunLogin, "id"> {
    const payload = this.#read(state);
    if (payload === null) {
      throw refused("was not made by this server");
    }
    const nowMs = this.#o.nowMs();
    if (nowMs >= payload.expiresAtMs) {
      throw refused("has expired");
    }
    const browser = browserOf(payload.id);
    if (browser === null || !isBrowserValue(browser) || hashOf(browser) !== payload.browserHash) {
      throw refused("was begun in another browser");
    }
    if (this.#redeemed.has(payload.id)) {
      throw refused("was used already");
    }
    this.#makeRoom(nowMs);
    this.#redeemed.set(payload.id, payload.expiresAtMs);
    const { id, issuer, returnTo } = payload;
    return { id, issuer, returnTo, ...this.#secrets(id, browser) };
  }

  #read(state: string): StatePayload | null {
    const dot = state.indexOf(".");
    if (dot === -1 || state.length > maxStateCharacters) {
      return null;
    }
    const text = state.slice(0, dot);
    const mac = Buffer.from(state.slice(dot + 1), "base64url");
    const expected = this.#mac(text);
    if (mac.length !== expected.length || !timingSafeEqual(mac, expected)) {
      return null;
    }
    // Signed by us, so it is what begin() wrote.
    return JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as StatePayload;
  }

  #mac(text: string): Buffer {
    return createHmac("sha256", this.#macKey).update(text).digest();
  }

  #secrets(id: string, browser: string): { nonce: string; codeVerifier: string } {
    const derive = (purpose: string): string =>
      createHmac("sha256", this.#derivationKey).update(`${purpose}\0${id}\0${browser}`).digest("base64url");
    // 43 characters of the unreserved set, the least that RFC 7636 section 4.1 asks of a verifier.
    return { nonce: derive("nonce"), codeVerifier: derive("verifier") };
  }

  #makeRoom(nowMs: number): void {
    if (this.#redeemed.size < this.#maxRedeemed && nowMs - this.#sweptAtMs < lifeMs) {
      return;
    }
    if (nowMs - this.#sweptAtMs >= 1000) {
      this.#sweptAtMs = nowMs;
      for (const [id, expiresAtMs] of this.#redeemed) {
        if (nowMs >= expiresAtMs) {
          this.#redeemed.delete(id);
        }
      }
    }
    // Anybody can redeem states of their own: refusing more would lock everybody out.
    const [oldest] = this.#redeemed.keys();
    if (this.#redeemed.size >= this.#maxRedeemed && oldest !== undefined) {
      this.#redeemed.delete(oldest);
    }
  }
}

function refused(why: string): ServiceError {
  return new ServiceError("BAD_REQUEST", `this login ${why}; start again at /auth/login`);
}

/** Whether a text can be the id of a login. */
export function isLoginId(text: string): boolean {
  return /^[A-Za-z0-9_-]{22}$/.test(text);
}

function isBrowserValue(text: string): boolean {
  return /^[A-Za-z0-9_-]{43}$/.test(text);
}

function hashOf(browser: string): string {
  return createHash("sha256").update(browser).digest("base64url");
}
