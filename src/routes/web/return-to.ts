/** Where a browser goes after its login: an address of this service, never of somebody else. */

const maxCharacters = 1024;

/**
 * The address to send a browser to for `return_to`, or null when that is not ours: a path of `origin` below `basePath`,
 * or a URL of another of `allowedOrigins`. A path comes back as a path. Written by the WHATWG URL rules, because the browser will read
 * it by them: `//host`, `/\host`, tabs and line breaks inside do not get past.
 */
export function safeReturnTo(
  returnTo: string,
  o: { readonly origin: string; readonly basePath: string; readonly allowedOrigins: ReadonlySet<string> },
): string | null {
  const { origin, basePath } = o;
  // Control characters and backslashes are dropped or turned by browsers; nobody needs them here.
  if (returnTo.length > maxCharacters || /[\s\p{Cc}\\]/u.test(returnTo)) {
    return null;
  }
  // A path is read against our origin; anything else must be complete, or browsers differ about it.
  const base = returnTo.startsWith("/") ? origin : undefined;
  if (!URL.canParse(returnTo, base)) {
    return null;
  }
  const url = new URL(returnTo, base);
  if (url.username !== "" || url.password !== "") {
    return null;
  }
  // `blob:` and its like have an origin, too.
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return null;
  }
  if (url.origin === origin && url.pathname !== basePath && !url.pathname.startsWith(`${basePath}/`)) {
    return null;
  }
  if (base === undefined) {
    return o.allowedOrigins.has(url.origin) ? url.href : null;
  }
  if (url.origin !== origin || url.pathname.startsWith("//")) {
    return null;
  }
  return `${url.pathname}${url.search}${url.hash}`;
}
