/** Cookies as RFC 6265 writes them: reading the `Cookie` field, making `Set-Cookie` fields. */

/** Longest `Cookie` field looked at, in characters; a longer one counts as holding nothing. */
const maxFieldLength = 24_576;

/**
 * The value of cookie `name` in a `Cookie` field (RFC 6265 section 4.2.1); null when it is not there.
 * When the name comes several times with different values the answer is `ambiguous`: a neighbouring
 * host or path may have planted the other one (RFC 6265 section 8.6), and nobody can tell which.
 */
export function readCookie(field: string, name: string): string | null | { readonly ambiguous: true } {
  if (field.length > maxFieldLength) {
    return null;
  }
  let found: string | null = null;
  for (const pair of field.split(";")) {
    const equals = pair.indexOf("=");
    if (equals === -1 || pair.slice(0, equals).trim() !== name) {
      continue;
    }
    const value = unquoted(pair.slice(equals + 1).trim());
    if (found !== null && found !== value) {
      return { ambiguous: true };
    }
    found = value;
  }
  return found;
}

/** The names in a `Cookie` field, as they were sent. */
export function cookieNames(field: string): readonly string[] {
  return field.length > maxFieldLength ? [] : field.split(";").map((pair) => (pair.split("=", 1)[0] ?? "").trim());
}

/** Attributes of a cookie that only the server reads: `HttpOnly` and `SameSite=Lax` always go with it. */
interface CookieOptions {
  readonly path: string;
  /** False only where browsers talk to the server over loopback HTTP. */
  readonly secure: boolean;
  /** Seconds; 0 deletes the cookie. */
  readonly maxAgeSeconds: number;
}

/**
 * A `Set-Cookie` field (RFC 6265 section 4.1).
 * @throws RangeError for a value that a cookie cannot carry.
 */
export function setCookie(name: string, value: string, o: CookieOptions): string {
  if (!/^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/.test(value)) {
    throw new RangeError(`the cookie ${name} has a value that cannot be sent`);
  }
  const secure = o.secure ? "; Secure" : "";
  const maxAge = Math.max(0, Math.floor(o.maxAgeSeconds));
  return `${name}=${value}; Path=${o.path}; Max-Age=${maxAge}; HttpOnly; SameSite=Lax${secure}`;
}

function unquoted(value: string): string {
  return value.length >= 2 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value;
}
