/** Links to pages that may not be there. */
import { pages } from "./pages.js";

/** Whether the application has a page of that path (`/traces/$id` for one of its kind). */
export function hasPage(path: string): boolean {
  return pages.some((page) => page.path === path);
}
