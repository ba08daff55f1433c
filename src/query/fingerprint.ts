/** What a query looks like without its constants, so that the log can be grouped by kinds of queries. */
import { createHash } from "node:crypto";

import type { Tree } from "./gate/syntax-tree.js";

/** Characters of a fingerprint. */
const digits = 16;

/** A fingerprint of what `json_serialize_sql` made of a text: hex, the same for any constants and layout. */
export function fingerprintOf(document: Tree): string {
  const shape = JSON.stringify(document, function strip(this: Tree, key: string, value: unknown) {
    if (key === "query_location") {
      return undefined;
    }
    // The value of a constant, its type and length included: 1 and 1000000 differ in all of them.
    return key === "value" && this["class"] === "CONSTANT" ? "?" : value;
  });
  return createHash("sha256").update(shape).digest("hex").slice(0, digits);
}

/** SHA-256 of a text, in hex. */
export function sqlHashOf(sql: string): string {
  return createHash("sha256").update(sql, "utf8").digest("hex");
}
