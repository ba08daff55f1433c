/** The pages that people see at the identity provider: whom to log in as, and what went wrong. Plain HTML, no script. */
import { createHash } from "node:crypto";

import { escapeHtml, htmlPage } from "../runtime/text/html.js";
import { type Account, accounts } from "./accounts.js";

/** A page, ready to be sent. */
export interface Page {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const style = `
:root { color-scheme: light dark; --page: #f4f5f7; --card: #fff; --text: #1c2330; --quiet: #5b6575; --line: #d5dae1;
  --accent: #1f5fd0; --hover: #eef3fc; }
@media (prefers-color-scheme: dark) { :root { --page: #12151b; --card: #1b2029; --text: #e8ebf0; --quiet: #9ba6b6;
  --line: #343c49; --accent: #7aa7ff; --hover: #232b38; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; background: var(--page);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
main { width: min(28rem, 100%); padding: 2rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .75rem; }
h1 { margin: 0 0 .25rem; font-size: 1.35rem; line-height: 1.3; }
p { margin: 0; color: var(--quiet); }
form { display: grid; gap: .75rem; margin: 1.5rem 0; }
button { display: flex; gap: .9rem; align-items: center; width: 100%; padding: .8rem 1rem; text-align: left;
  font: inherit; color: inherit; background: none; border: 1px solid var(--line); border-radius: .5rem;
  cursor: pointer; }
button:hover { background: var(--hover); border-color: var(--accent); }
button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
input { width: 100%; padding: .8rem 1rem; font: inherit; letter-spacing: .1em; text-transform: uppercase;
  color: inherit; background: none; border: 1px solid var(--line); border-radius: .5rem; }
input:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.plain { justify-content: center; font-weight: 600; }
.initial { flex: none; display: grid; place-items: center; width: 2.4rem; height: 2.4rem; border-radius: 50%;
  font-weight: 600; color: var(--card); background: var(--accent); }
.email { display: block; font-weight: 600; }
.summary, small { display: block; color: var(--quiet); font-size: .875rem; }
`;

const styleHash = createHash("sha256").update(style).digest("base64");

const headers: Readonly<Record<string, string>> = {
  "Content-Type": "text/html; charset=utf-8",
  "Cache-Control": "no-store",
  "Content-Security-Policy": `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; frame-ancestors 'none'`,
  "X-Content-Type-Options": "nosniff",
  // A form then says where it comes from.
  "Referrer-Policy": "same-origin",
};

/** One button for each account. @param o.action where the form goes; @param o.client who asks, by name. */
export function loginPage(o: { readonly action: string; readonly client: string }): Page {
  return page(
    200,
    "Log in to telemetry",
    `<p>The ${escapeHtml(o.client)} asks who you are.<br>There is no password.</p>
<form method="post" action="${escapeHtml(o.action)}">
${accounts.map(button).join("\n")}
</form>
<small>This login exists in development mode only, and on this machine only.</small>`,
  );
}

/**
 * The code of a device login. @param o.form of the library, which has no button; @param o.formId its id.
 */
export function codePage(o: { readonly form: string; readonly formId: string; readonly sentence: string }): Page {
  return page(
    200,
    "Log in to telemetry",
    `<p>${escapeHtml(o.sentence)}</p>\n${o.form}\n<button class="plain" form="${o.formId}">Go on</button>`,
  );
}

/** The end of a device login. */
export function donePage(): Page {
  return page(200, "You are logged in", "<p>You can close this window: the command line goes on.</p>");
}

/** What went wrong, in a sentence. */
export function errorPage(status: number, sentence: string): Page {
  return page(status, "The login did not work", `<p>${escapeHtml(sentence)}</p>`);
}

function button({ email, name, summary }: Account): string {
  return `<button name="account" value="${escapeHtml(email)}"><span class="initial" aria-hidden="true">${escapeHtml(name.slice(0, 1))}</span>
<span><span class="email">${escapeHtml(email)}</span><span class="summary">${escapeHtml(summary)}</span></span></button>`;
}

function page(status: number, title: string, content: string): Page {
  return { status, headers, body: htmlPage(title, style, content) };
}
