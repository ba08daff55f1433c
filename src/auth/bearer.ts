/** The `Authorization` header: `Bearer` credentials as RFC 9110 11.4 and RFC 6750 2.1 write them. */

/** Longest header looked at, in characters; a longer one is refused unread. */
const MAX_AUTHORIZATION_LENGTH = 16_384;

const BEARER = "bearer";
const USUAL = "Bearer ";
const SPACE = 0x20;

/**
 * Where the token of `authorization` starts, or -1 when the header is empty, too long, of another
 * scheme or without a token. The scheme compares case-insensitively; any number of spaces follows.
 */
export function bearerTokenStart(authorization: string): number {
  const length = authorization.length;
  // The usual spelling, without a loop.
  if (
    length > USUAL.length &&
    length <= MAX_AUTHORIZATION_LENGTH &&
    authorization.startsWith(USUAL) &&
    authorization.charCodeAt(USUAL.length) !== SPACE
  ) {
    return USUAL.length;
  }
  if (length <= BEARER.length + 1 || length > MAX_AUTHORIZATION_LENGTH) return -1;
  for (let i = 0; i < BEARER.length; i++) {
    if ((authorization.charCodeAt(i) | 0x20) !== BEARER.charCodeAt(i)) return -1;
  }
  let start = BEARER.length;
  while (start < length && authorization.charCodeAt(start) === SPACE) start++;
  return start === BEARER.length || start === length ? -1 : start;
}
