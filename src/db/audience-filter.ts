/** Whose rows a caller may read, and the condition that says so in SQL. */
import type { SqlOrTransaction } from "./sql.js";

/**
 * Whose rows to read: everybody's, or those of some audiences. `unstamped` says whether rows that carry
 * no audience are among them; among everybody's they are unless it is false.
 */
export type AudienceFilter =
  | { readonly kind: "all"; readonly unstamped?: boolean }
  | {
      readonly kind: "some";
      readonly audiences: ReadonlySet<string>;
      readonly unstamped: boolean;
    };

/** The condition on `audience` that lets a row of any table be read (or retired). */
export function readableBy(sql: SqlOrTransaction, audiences: AudienceFilter) {
  if (audiences.kind === "all") {
    return audiences.unstamped === false ? sql`audience is not null` : sql`true`;
  }
  return sql`(audience = any(${[...audiences.audiences]}::text[])
    or (${audiences.unstamped} and audience is null))`;
}
