/** Lists that are longer than one answer of the server: page after page, until there is enough or no more. */
import { member } from "../../shared/json-member.js";
import type { WebRequest } from "../../web/web-client.js";
import { UsageError } from "../context.js";
import type { ActionValues } from "./flags.js";

/** The page of a list. */
export interface ListPages {
  /** Most rows; infinite for all, null for as many as the server gives unless told. */
  readonly limit: number | null;
  readonly offset: number;
  /** Members of a row that together are its own. */
  readonly identity: readonly string[];
}

/** Most rows that the server returns at once. */
const maxPageRows = 500;

/** Reads `--limit`, `--all` and `--offset`. @throws ConfigError for both of the first. */
export function pagesOf(
  { limit, all, offset }: Pick<ActionValues, "limit" | "all" | "offset">,
  identity: readonly string[],
): ListPages {
  if (all && limit !== null) {
    throw new UsageError("give --limit or --all, not both");
  }
  return { limit: all ? Number.POSITIVE_INFINITY : limit, offset: offset ?? 0, identity };
}

/**
 * Sends `request` until all rows are there. Rows added in between shift others to the next page, where
 * they are skipped; rows deleted in between may hide as many others.
 * @param send gives the JSON of an answer.
 * @returns the rows, or what else the server answered.
 */
export async function readPages(
  pages: ListPages,
  request: WebRequest,
  send: (request: WebRequest) => Promise<unknown>,
): Promise<unknown> {
  const rows: unknown[] = [];
  const seen = new Set<string>();
  let { offset } = pages;
  for (;;) {
    const limit = pages.limit === null ? null : Math.min(maxPageRows, Math.max(1, pages.limit - rows.length));
    const query = { ...request.query, limit, offset: offset === 0 ? null : offset };
    const page = await send({ ...request, query });
    if (!Array.isArray(page)) {
      return page;
    }
    for (const row of page) {
      const identity = identityOf(row, pages.identity);
      if (!seen.has(identity)) {
        rows.push(row);
      }
      seen.add(identity);
    }
    offset += page.length;
    if (limit === null || page.length < limit || rows.length >= (pages.limit ?? 0)) {
      return rows;
    }
  }
}

function identityOf(row: unknown, members: readonly string[]): string {
  return JSON.stringify(members.map((name) => member(row, name)));
}
