/**
 * The editor of SQL. It lives in a shadow root: there CodeMirror adopts its style sheets, which the content security
 * policy allows, while in the document it would add style elements, which it does not.
 */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab, isolateHistory } from "@codemirror/commands";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension, Prec } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  placeholder,
  tooltips,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { type ReactElement, useEffect, useRef } from "react";

import css from "./sql-editor.module.css";

interface SqlEditorProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Ctrl Enter and F5. @param selection the selected text; empty without one. */
  readonly onRun: (selection: string) => void;
  /** What completes names; see `sqlCompletion`. */
  readonly completion?: Extension;
  readonly placeholder?: string;
}

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], color: "var(--accent)", fontWeight: "500" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--level-info-text)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--text-muted)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--level-warn-text)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--bg)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": {
    fontFamily: "var(--mono)",
    fontSize: "12.5px",
    fontVariantLigatures: "none",
    lineHeight: "20px",
  },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--bg)", color: "var(--text-muted)", border: "none" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--surface)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--selected)",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--mark)" },
  ".cm-selectionMatch": { backgroundColor: "var(--mark)" },
  ".cm-placeholder": { color: "var(--text-muted)" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    border: "1px solid var(--border)",
    borderRadius: "6px",
    boxShadow: "var(--lift)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12px", maxHeight: "240px" },
  ".cm-tooltip-autocomplete ul li": { padding: "3px 8px", lineHeight: "18px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--selected)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--text-muted)", fontStyle: "normal" },
  ".cm-completionMatchedText": { textDecoration: "none", color: "var(--accent)", fontWeight: "600" },
  ".cm-tooltip.cm-completionInfo": { padding: "6px 10px", maxWidth: "340px", fontFamily: "var(--font)" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)" },
  ".cm-panel input, .cm-panel button": { color: "var(--text)", backgroundColor: "var(--bg)", backgroundImage: "none" },
});

/**
 * Typing over a selection: a browser that does it by itself keeps the look of what was there with a style attribute, which
 * the content security policy forbids and everybody would read about in the console.
 */
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    const { data } = event;
    if (event.inputType !== "insertText" || data === null || empty || view.composing) {
      return false;
    }
    const insert = () => view.state.update(view.state.replaceSelection(data), { userEvent: "input.type" });
    if (!view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, data, insert))) {
      view.dispatch(insert());
    }
    event.preventDefault();
    return true;
  },
});

export function SqlEditor(o: SqlEditorProps): ReactElement {
  const host = useRef<HTMLDivElement | null>(null);
  const view = useRef<EditorView | null>(null);
  const completion = useRef(new Compartment());
  // The newest of each, for an editor that is made once.
  const latest = useRef(o);
  latest.current = o;

  useEffect(() => {
    const element = host.current;
    if (element === null) {
      return undefined;
    }
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const run = (editor: EditorView): boolean => {
      const { from, to } = editor.state.selection.main;
      latest.current.onRun(editor.state.sliceDoc(from, to));
      return true;
    };
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          Prec.highest(
            keymap.of([
              { key: "Mod-Enter", run },
              { key: "F5", run },
            ]),
          ),
          typeOver,
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          autocompletion({ icons: false, maxRenderedOptions: 60 }),
          // Beyond the editor the list would lie over the controls, and take the clicks that are meant for them.
          tooltips({ tooltipSpace: ({ dom }) => dom.getBoundingClientRect() }),
          highlightActiveLine(),
          highlightSelectionMatches(),
          search({ top: true }),
          keymap.of([
            ...closeBracketsKeymap,
            ...defaultKeymap,
            ...historyKeymap,
            ...searchKeymap,
            ...completionKeymap,
            indentWithTab,
          ]),
          sql({ dialect: PostgreSQL }),
          completion.current.of(latest.current.completion ?? []),
          syntaxHighlighting(colours),
          look,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({
            "aria-label": latest.current.label,
            "aria-description": "Tab indents. Escape, then Tab, leaves the editor.",
          }),
          placeholder(latest.current.placeholder ?? ""),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) {
              latest.current.onChange(update.state.doc.toString());
            }
          }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);

  useEffect(() => {
    view.current?.dispatch({ effects: completion.current.reconfigure(o.completion ?? []) });
  }, [o.completion]);

  useEffect(() => {
    const editor = view.current;
    if (editor !== null && editor.state.doc.toString() !== o.value) {
      editor.dispatch({
        changes: { from: 0, to: editor.state.doc.length, insert: o.value },
        annotations: isolateHistory.of("full"), // a step of its own to undo, apart from what was typed just before
      });
    }
  }, [o.value]);

  return <div ref={host} className={css.host} />;
}
