/** What a person sees whose login did not work: the error in words, and the way to another try. Plain HTML, no script. */
import { createHash } from "node:crypto";

import { escapeHtml, htmlPage } from "../../runtime/text/html.js";
import type { HttpAnswer } from "../http/answer.js";

const style = `
:root { color-scheme: light dark; --page: #fff; --text: #1c2330; --quiet: #5b6575; --link: #4338ca; }
@media (prefers-color-scheme: dark) { :root { --page: #121316; --text: #e8ebf0; --quiet: #a3adbb; --link: #a5a0ff; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
main { width: min(32rem, 100% - 3rem); overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.35rem; }
p { margin: .75rem 0 1.25rem; color: var(--quiet); }
a { color: var(--link); }
`;
const styleHash = createHash("sha256").update(style).digest("base64");

/**
 * The same answer as a page.
 * @param o.message the error, as JSON would say it; @param o.again the address of a new login.
 */
export function loginFailedPage(
  answer: HttpAnswer,
  o: { readonly message: string; readonly again: string },
): HttpAnswer {
  const sentence = `${o.message.slice(0, 1).toUpperCase()}${o.message.slice(1)}.`;
  const content = `<p role="alert">${escapeHtml(sentence)}</p>
<a href="${escapeHtml(o.again)}">Log in again</a>`;
  return {
    ...answer,
    headers: [
      ...answer.headers.filter(([name]) => name !== "Content-Type"),
      ["Content-Type", "text/html; charset=utf-8"],
      ["Content-Security-Policy", `default-src 'none'; style-src 'sha256-${styleHash}'; frame-ancestors 'none'`],
      // The address of a callback has a code and a state.
      ["Referrer-Policy", "no-referrer"],
    ],
    body: htmlPage("The login did not work", style, content),
  };
}
