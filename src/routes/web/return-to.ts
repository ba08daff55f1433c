/** Where a browser goes after its login: an address of this service, never of somebody else. */

const maxCharacters = 1024;

/**
 * The address to send a browser to for `return_to`, or null when that is not ours: a path below
 * `origin`, or a URL of one of `allowedOrigins`. A path comes back as a path.
 * Written by the WHATWG URL rules, because the browser will read it by them: `//host`, `/\host`,
 * tabs and line breaks inside do not get past.
 */
export function safeReturnTo(
  returnTo: string,
  origin: string,
  allowedOrigins: ReadonlySet<string>,
): string | null {
  // Control characters and backslashes are dropped or turned by browsers; nobody needs them here.
  if (returnTo.length > maxCharacters || /[\s\p{Cc}\\]/u.test(returnTo)) return null;
  if (!URL.canParse(returnTo, origin)) return null;
  const url = new URL(returnTo, origin);
  if (url.username !== "" || url.password !== "") return null;
  if (returnTo.startsWith("/")) {
    if (url.origin !== origin || url.pathname.startsWith("//")) return null;
    return `${url.pathname}${url.search}${url.hash}`;
  }
  return URL.canParse(returnTo) && allowedOrigins.has(url.origin) ? url.href : null;
}
