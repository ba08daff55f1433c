/** Universally unique identifiers as text (RFC 9562, section 4). */

/** Matches one, of any version, in either case; to be put between anchors. */
export const uuidPattern = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";

const uuid = new RegExp(`^${uuidPattern}$`, "u");

/** Whether a text is one, of any version, in either case. */
export function isUuid(text: string): boolean {
  return uuid.test(text);
}
