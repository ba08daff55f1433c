/** Which hosts are this machine's own. */

/** Whether a host name in any case or an address, brackets of IPv6 allowed, is a loopback one. */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, "").toLowerCase();
  return bare === "localhost" || bare === "::1" || /^127(?:\.\d{1,3}){3}$/.test(bare);
}
