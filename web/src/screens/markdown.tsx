/** Markdown of people: text, lists, tables and links. HTML in it stays text, and nothing is loaded from elsewhere. */
import type { ReactElement, ReactNode } from "react";
import ReactMarkdown from "react-markdown";
import gfm from "remark-gfm";

import css from "./screen.module.css";

/** All are below the name of the screen, whatever people begin with: levels that skip one are lost to screen readers. */
const headings = Object.fromEntries(
  ["h1", "h2", "h3", "h4", "h5", "h6"].map((level) => [
    level,
    ({ children }: { readonly children?: ReactNode }) => <h3 data-level={level}>{children}</h3>,
  ]),
);

export function Markdown({ text }: { readonly text: string }): ReactElement {
  return (
    <div className={css.markdown}>
      <ReactMarkdown
        remarkPlugins={[gfm]}
        components={{
          ...headings,
          a: ({ href, children }) => (
            <a href={href} target="_blank" rel="noopener noreferrer">
              {children}
            </a>
          ),
          // The policy of the page would not load it.
          img: ({ alt }) => <span>{alt ?? ""}</span>,
        }}
      >
        {text}
      </ReactMarkdown>
    </div>
  );
}
