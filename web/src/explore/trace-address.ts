/** Where a trace is shown. */

/** In lower case, as addresses of the application have it. */
export const isTraceId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);

/**
 * For a link.
 * @param atMs some time of it, which saves a search through everything; @param spanId to be selected.
 */
export function traceAddress(
  traceId: string,
  atMs: number,
  spanId: string | null = null,
): { readonly to: string; readonly search: Record<string, string> } {
  const search = { at: new Date(atMs).toISOString(), ...(spanId === null ? {} : { span: spanId }) };
  return { to: `/traces/${encodeURIComponent(traceId)}`, search };
}
