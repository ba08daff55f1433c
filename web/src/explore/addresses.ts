/** Addresses of pages that other pages lead to. Time range, audience and data source go along by themselves. */
import { type Filter, formatFilter } from "../ui/filters/filters.js";
import { servicePath } from "../app/links.js";
import type { Search } from "../app/search.js";

interface PageAddress {
  readonly to: string;
  readonly search: Search;
}

const equal = (key: string, value: string): Filter => ({ key, operator: "=", value });

/** A filter that a page begins with: `{ service_name: "shop" }` keeps what is equal to it. */
type EqualTo = Readonly<Record<string, string | null>>;

function filtered(to: string, equalTo: EqualTo): PageAddress {
  const filters = Object.entries(equalTo).flatMap(([key, value]) =>
    value === null ? [] : [formatFilter(equal(key, value))],
  );
  return { to, search: { filter: filters } };
}

export const logsAddress = (equalTo: EqualTo): PageAddress => filtered("/logs", equalTo);

export const tracesAddress = (equalTo: EqualTo): PageAddress => filtered("/traces", equalTo);

export const serviceAddress = (name: string): PageAddress => ({ to: servicePath(name), search: {} });

/** The traces in which one service calls another, or what sends no spans. */
export const callsAddress = (caller: string, callee: string): PageAddress => ({
  to: "/traces",
  search: { caller, callee },
});
