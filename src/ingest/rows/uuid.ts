/** UUIDv5 (RFC 9562 section 5.5): SHA-1 of a namespace and a name. */
import { hash } from "node:crypto";

/** Bytes of a UUID. */
export const uuidBytes = 16;

/** The variant bits 10 put over the top two bits of a hex digit. */
const variantDigits = "89ab89ab89ab89ab";

/** UUIDv5 text, lower case, of input that starts with the namespace's 16 bytes. */
export function uuidV5(namespaceAndName: Uint8Array): string {
  const digest = hash("sha1", namespaceAndName, "hex");
  const variant = variantDigits[Number.parseInt(digest[16] ?? "0", 16)] ?? "8";
  return `${digest.slice(0, 8)}-${digest.slice(8, 12)}-5${digest.slice(13, 16)}-${variant}${digest.slice(17, 20)}-${digest.slice(20, 32)}`;
}

/** The 16 bytes of UUID text. */
export function parseUuid(text: string): Uint8Array {
  return Buffer.from(text.replaceAll("-", ""), "hex");
}

/** UUIDv5 of text under a namespace given as 16 bytes. */
export function uuidV5OfText(namespace: Uint8Array, name: string): string {
  return uuidV5(Buffer.concat([namespace, Buffer.from(name)]));
}
