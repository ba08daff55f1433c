/** Markdown of people: text, lists, tables and links. HTML in it stays text, and nothing is loaded from elsewhere. */
import { Component, type ReactElement, type ReactNode } from "react";
import ReactMarkdown from "react-markdown";
import gfm from "remark-gfm";

import { formatNumber } from "../ui/format.js";
import { Banner } from "../ui/states.js";
import css from "./screen.module.css";

/** All are below the name of the screen, whatever people begin with: levels that skip one are lost to screen readers. */
const headings = Object.fromEntries(
  ["h1", "h2", "h3", "h4", "h5", "h6"].map((level) => [
    level,
    ({ children }: { readonly children?: ReactNode }) => <h3 data-level={level}>{children}</h3>,
  ]),
);

/** React and browsers go down a tree by calling themselves: how deep they get differs between them. Lists count twice. */
const maxDepth = 100;

interface Branch {
  readonly children?: readonly Branch[];
}

/** Refuses a text that nests deeper than {@link maxDepth}. */
function shallow() {
  return (tree: Branch): void => {
    let level: readonly Branch[] = [tree];
    for (let depth = 0; level.length > 0; depth++) {
      if (depth > maxDepth) {
        throw new RangeError(`more than ${maxDepth} levels of Markdown`);
      }
      level = level.flatMap(({ children = [] }) => children);
    }
  };
}

/** Of longer text the parser may take many seconds: its time grows with the square. In characters. */
const maxLength = 10_000;

export function Markdown({ text }: { readonly text: string }): ReactElement {
  return text.length > maxLength ? (
    <Plain text={text} reason={`Text of more than ${formatNumber(maxLength)} characters is shown as it is written.`} />
  ) : (
    <Guarded key={text} text={text}>
      <Formatted text={text} />
    </Guarded>
  );
}

/** Nothing that somebody writes takes the page away, and with it the way to change what is written. */
class Guarded extends Component<{ readonly text: string; readonly children: ReactNode }, { readonly failed: boolean }> {
  override readonly state = { failed: false };

  static getDerivedStateFromError(): { readonly failed: boolean } {
    return { failed: true };
  }

  override render(): ReactNode {
    const { text, children } = this.props;
    return this.state.failed ? (
      <Plain text={text} reason="This text nests too deep, and is shown as it is written." />
    ) : (
      children
    );
  }
}

function Plain({ text, reason }: { readonly text: string; readonly reason: string }): ReactElement {
  return (
    <div className={css.markdown}>
      <Banner kind="warn">{reason}</Banner>
      <p className={css.plain}>{text}</p>
    </div>
  );
}

function Formatted({ text }: { readonly text: string }): ReactElement {
  return (
    <div className={css.markdown}>
      <ReactMarkdown
        remarkPlugins={[gfm, shallow]}
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
