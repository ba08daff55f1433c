/** Universally unique identifiers as text (RFC 9562, section 4). */

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/iu;

/** Whether a text is one, of any version, in either case. */
export function isUuid(text: string): boolean {
  return uuid.test(text);
}
