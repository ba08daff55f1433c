/** Links to pages that may not be there, and to services that are called anything. */
import { pages } from "./pages.js";

/** Whether the application has a page of that path (`/traces/$id` for one of its kind). */
export function hasPage(path: string): boolean {
  return pages.some((page) => page.path === path);
}

/** What browsers take out of a path, however it is encoded, and the sign that stands before it instead. */
const lostInPaths = /^(?:\.{0,2}$|~)/u;

/** The page of a service, whose name may be anything. */
export const servicePath = (name: string): string =>
  `/services/${lostInPaths.test(name) ? "~" : ""}${encodeURIComponent(name)}`;

/** The service of the last part of {@link servicePath}, decoded. */
export const serviceOfPath = (part: string): string => part.replace(/^~/u, "");
