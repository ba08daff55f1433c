/** Which objects a path names, and which of them are handed out. */
import { ServiceError } from "../../runtime/errors.js";

/** Where objects are below. */
export const objectPrefix = "/obj/";

const maxLength = 1024;
/**
 * Names that begin with a dot are of what is no object: temporary files, probes, the directory above. A longer name than
 * this fits no file system, which would fail in place of not having it.
 */
const pattern = /^(?!\.)[A-Za-z0-9._=-]{1,255}(?:\/(?!\.)[A-Za-z0-9._=-]{1,255})*$/u;

/** Decodes the key of a path. @throws ServiceError BAD_REQUEST when it is none */
export function keyOfPath(path: string): string {
  let key = path.slice(objectPrefix.length);
  if (key.includes("%")) {
    try {
      key = decodeURIComponent(key);
    } catch {
      key = "";
    }
  }
  return checkKey(key);
}

/** Lets a key pass that cannot lead out of the store. @throws ServiceError BAD_REQUEST */
export function checkKey(key: string): string {
  if (key.length > maxLength || !pattern.test(key)) {
    throw new ServiceError("BAD_REQUEST", "not a key of an object");
  }
  return key;
}

/** Whether a key is one of these directories, or below one; null: all are. */
export function isAllowed(key: string, prefixes: readonly string[] | null): boolean {
  return prefixes === null || prefixes.some((prefix) => key === prefix || key.startsWith(`${prefix}/`));
}
