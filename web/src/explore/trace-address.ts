/** Where a trace is shown. */

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
