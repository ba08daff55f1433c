/** Addresses of the comparison of two traces, and of the choice of them in the list. */
import type { Search } from "../../../app/search.js";
import { tracesAddress } from "../../addresses.js";
import { isTraceId } from "../../trace-address.js";
import type { Trace } from "../trace-model.js";

/** A trace and some time of it in ISO 8601, which saves a search through everything; null: unknown. */
export interface Compared {
  readonly id: string;
  readonly at: string | null;
}

/** In `compare` of the list: none has been chosen yet. */
export const chooseFirst = "first";

/** For `compare` of the list. */
export const compareText = ({ id, at }: Compared): string => (at === null ? id : `${id},${at}`);

/** Null for anything else than what {@link compareText} makes. */
export function parseCompared(text: string | null): Compared | null {
  const [id = "", at] = (text ?? "").toLowerCase().split(",");
  return isTraceId(id) ? { id, at: at === undefined || Number.isNaN(Date.parse(at)) ? null : at.toUpperCase() } : null;
}

export const compareAddress = (a: Compared, b: Compared): { readonly to: string; readonly search: Search } => ({
  to: "/traces/compare",
  search: { a: compareText(a), b: compareText(b) },
});

/** The list of traces that begin as this one does, to choose one of them. */
export function chooseAddress(id: string, trace: Trace): { readonly to: string; readonly search: Search } {
  const root = trace.spans[0];
  const { to, search } = tracesAddress({ service_name: root?.service ?? null, name: root?.name ?? null });
  return { to, search: { ...search, compare: compareText({ id, at: new Date(trace.beginMs).toISOString() }) } };
}
