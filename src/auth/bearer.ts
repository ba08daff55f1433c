/** The `Authorization` header: `Bearer` credentials as RFC 9110 11.4 and RFC 6750 2.1 write them. */

/** Longest header looked at, in characters; a longer one is refused unread. */
const maxAuthorizationLength = 16_384;

const bearer = "bearer";
const usual = "Bearer ";
const space = 0x20;

/**
 * Where the token of `authorization` starts, or -1 when the header is empty, too long, of another
 * scheme or without a token. The scheme compares case-insensitively; any number of spaces follows.
 */
export function bearerTokenStart(authorization: string): number {
  const length = authorization.length;
  // The usual spelling, without a loop.
  if (
    length > usual.length &&
    length <= maxAuthorizationLength &&
    authorization.startsWith(usual) &&
    authorization.charCodeAt(usual.length) !== space
  ) {
    return usual.length;
  }
  if (length <= bearer.length + 1 || length > maxAuthorizationLength) {
    return -1;
  }
  for (let i = 0; i < bearer.length; i++) {
    if ((authorization.charCodeAt(i) | 0x20) !== bearer.charCodeAt(i)) {
      return -1;
    }
  }
  let start = bearer.length;
  while (start < length && authorization.charCodeAt(start) === space) {
    start++;
  }
  return start === bearer.length || start === length ? -1 : start;
}
