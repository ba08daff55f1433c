/**
 * A browser as far as logins need one: a cookie jar that minds host, path, age and `Secure`, and the
 * following of redirects, with the provider's pages filled in on the way: those of oidc-provider's own development
 * login, or those of the service's, which have a button for each account.
 */

interface StoredCookie {
  readonly name: string;
  readonly value: string;
  readonly host: string;
  readonly path: string;
  readonly secure: boolean;
  readonly expiresAtMs: number;
}

interface BrowserRequest {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

export class TestBrowser {
  #cookies: StoredCookie[] = [];
  /** Every `Set-Cookie` field seen. */
  readonly received: string[] = [];

  /** One request, no redirect followed. */
  async request(url: string, o: BrowserRequest = {}): Promise<Response> {
    const at = new URL(url);
    const cookie = this.cookieField(url);
    const response = await fetch(url, {
      method: o.method ?? "GET",
      redirect: "manual",
      headers: { ...(cookie === "" ? {} : { cookie }), ...o.headers },
      ...(o.body === undefined ? {} : { body: o.body }),
    });
    for (const field of response.headers.getSetCookie()) {
      this.received.push(field);
      this.#store(field, at);
    }
    return response;
  }

  /** The `Cookie` field for a request to `url`, the more specific paths first (RFC 6265 5.4). */
  cookieField(url: string): string {
    const { hostname, pathname, protocol } = new URL(url);
    return this.#cookies
      .filter(
        (c) =>
          c.host === hostname &&
          (pathname === c.path || pathname.startsWith(c.path.endsWith("/") ? c.path : `${c.path}/`)) &&
          (!c.secure || protocol === "https:") &&
          c.expiresAtMs > Date.now(),
      )
      .toSorted((a, b) => b.path.length - a.path.length)
      .map((c) => `${c.name}=${c.value}`)
      .join("; ");
  }

  /** The value of a cookie wherever it is for, or null. */
  cookie(name: string): string | null {
    return this.#cookies.find((c) => c.name === name)?.value ?? null;
  }

  /** Plants a cookie, or replaces one. */
  plant(name: string, value: string, url: string): void {
    this.#put({
      name,
      value,
      host: new URL(url).hostname,
      path: "/",
      secure: false,
      expiresAtMs: Number.POSITIVE_INFINITY,
    });
  }

  /**
   * Starts at `url` and goes on through the provider's pages as `login`, until something other than
   * the provider answers, or `stopBefore` says to go no further.
   * @returns where it ended: the address that was not requested any more, or the last response.
   */
  async logIn(
    url: string,
    login: string,
    stopBefore: (url: URL) => boolean = () => false,
  ): Promise<{ readonly url: string; readonly response: Response | null }> {
    let at = url;
    let next: BrowserRequest = {};
    for (let hop = 0; hop < 20; hop++) {
      if (stopBefore(new URL(at))) {
        return { url: at, response: null };
      }
      const response = await this.request(at, next);
      next = {};
      const location = response.headers.get("location");
      if (location !== null) {
        at = new URL(location, at).href;
        continue;
      }
      const page = await response.clone().text();
      const action = /<form[^>]*action="([^"]+)"/u.exec(page)?.[1];
      if (response.status !== 200 || action === undefined) {
        return { url: at, response };
      }
      const prompt = fieldsOf(page)["prompt"];
      at = new URL(action, at).href;
      next = {
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded" },
        body: new URLSearchParams({
          ...(page.includes('name="account"') ? { account: login } : fieldsOf(page)),
          ...(prompt === "login" ? { login, password: "any" } : {}),
        }).toString(),
      };
    }
    throw new Error(`too many redirects, last to ${at}`);
  }

  #store(field: string, from: URL): void {
    const [pair = "", ...attributes] = field.split(";").map((part) => part.trim());
    const equals = pair.indexOf("=");
    const attribute = (name: string): string | undefined =>
      attributes.find((a) => a.toLowerCase().startsWith(`${name}=`))?.slice(name.length + 1);
    const maxAge = attribute("max-age");
    const expires = attribute("expires");
    this.#put({
      name: pair.slice(0, equals),
      value: pair.slice(equals + 1),
      host: from.hostname,
      path: attribute("path") ?? "/",
      secure: attributes.some((a) => a.toLowerCase() === "secure"),
      expiresAtMs:
        maxAge !== undefined
          ? Date.now() + Number(maxAge) * 1000
          : expires === undefined
            ? Number.POSITIVE_INFINITY
            : Date.parse(expires),
    });
  }

  #put(cookie: StoredCookie): void {
    this.#cookies = this.#cookies.filter(
      (c) => c.name !== cookie.name || c.host !== cookie.host || c.path !== cookie.path,
    );
    if (cookie.expiresAtMs > Date.now()) {
      this.#cookies.push(cookie);
    }
  }
}

/** What the form of a page sends when nobody changes anything. */
function fieldsOf(page: string): Record<string, string> {
  const inputs = page.match(/<input[^>]*>/gu) ?? [];
  return Object.fromEntries(
    inputs.flatMap((input) => {
      const name = /\sname="([^"]*)"/u.exec(input)?.[1];
      const value = /\svalue="([^"]*)"/u.exec(input)?.[1];
      return name === undefined || value === undefined ? [] : [[name, value]];
    }),
  );
}
