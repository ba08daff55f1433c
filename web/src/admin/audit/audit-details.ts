/** Details of an audit entry in a line. */
import type { AuditEntry } from "../../api/wire.js";

/** Of every entry: who asked, from where. It goes behind what tells this change from others. */
const ofEvery: readonly string[] = ["from", "forwarded_for", "issuer", "subject"];

export function detailText(details: AuditEntry["details"]): string {
  const shown = Object.entries(details).filter(([name]) => name !== "name");
  const [first, last] = [false, true].map((common) => shown.filter(([name]) => ofEvery.includes(name) === common));
  return [...(first ?? []), ...(last ?? [])]
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}
