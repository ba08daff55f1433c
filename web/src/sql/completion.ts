/** What the editor completes: views and their columns, functions, and keys of attributes within quotes. */
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { PostgreSQL, schemaCompletionSource, keywordCompletionSource } from "@codemirror/lang-sql";
import { EditorState, type Extension } from "@codemirror/state";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { runQuery } from "../api/query.js";
import { useScope } from "../app/scope.js";
import { functions } from "./functions.js";

/** What there is to complete. */
export interface Catalogue {
  /** Columns with their types, by view. */
  readonly views: ReadonlyMap<string, readonly Completion[]>;
  readonly attributes: readonly Completion[];
}

const columnsSql = `SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = 'main' ORDER BY table_name, ordinal_position`;
const attributesSql = `SELECT key, any_value(type) AS type, string_agg(DISTINCT "view", ', ') AS views
FROM attribute_keys(now() - INTERVAL 1 DAY, now()) GROUP BY key ORDER BY sum("rows") DESC LIMIT 2000`;

/** Asked once in a while; the editor works without. */
export function useSqlCompletion(): Extension {
  const { source } = useScope();
  const dataSource = source ?? undefined;
  const views = useQuery({
    queryKey: ["sql-columns", source],
    queryFn: async ({ signal }) => {
      const { columns, rows } = await runQuery({ sql: columnsSql, dataSource }, {}, signal);
      const found = new Map<string, Completion[]>();
      for (let row = 0; row < rows; row++) {
        const [view = "", label = "", detail = ""] = columns.map((column) => column.text(row));
        found.set(view, [...(found.get(view) ?? []), { label, detail: detail.toLowerCase(), type: "property" }]);
      }
      return found;
    },
    staleTime: 600_000,
    retry: false,
  });
  const attributes = useQuery({
    queryKey: ["sql-attributes", source],
    queryFn: async ({ signal }) => {
      const { columns, rows } = await runQuery({ sql: attributesSql, dataSource }, {}, signal);
      return Array.from({ length: rows }, (_, row): Completion => {
        const [label = "", type = "", inViews = ""] = columns.map((column) => column.text(row));
        return { label, detail: `${type} in ${inViews}`, type: "text" };
      });
    },
    staleTime: 300_000,
    retry: false,
  });
  return useMemo(
    () => sqlCompletion({ views: views.data ?? new Map(), attributes: attributes.data ?? [] }),
    [views.data, attributes.data],
  );
}

/** Completes what a catalogue has. */
export function sqlCompletion(catalogue: Catalogue): Extension {
  const schema = Object.fromEntries(catalogue.views);
  const sources = [
    schemaCompletionSource({ dialect: PostgreSQL, schema }),
    keywordCompletionSource(PostgreSQL, true),
    (context: CompletionContext) => attributeSource(context, catalogue.attributes),
    (context: CompletionContext) => wordSource(context, catalogue),
  ];
  return EditorState.languageData.of(() => sources.map((autocomplete) => ({ autocomplete })));
}

/** Within quotes behind `attr(…, '` and `->> '`. */
export function attributeSource(
  context: CompletionContext,
  attributes: readonly Completion[],
): CompletionResult | null {
  const before = context.matchBefore(/(?:->>?\s*|(?:attr(?:_\w+)?|property_get)\s*\([^()']*,\s*)'[^']*/i);
  if (before === null) {
    return null;
  }
  const from = before.from + before.text.lastIndexOf("'") + 1;
  return { from, options: [...attributes], validFor: /^[^']*$/ };
}

/** Functions anywhere, and columns of the views that the text names. */
export function wordSource(context: CompletionContext, { views }: Catalogue): CompletionResult | null {
  const before = context.matchBefore(/[A-Za-z_]\w*/);
  if (before === null || /[.'"]$/.test(context.state.sliceDoc(Math.max(0, before.from - 1), before.from))) {
    return null;
  }
  const text = context.state.doc.toString().toLowerCase();
  const named = [...views].filter(([view]) => new RegExp(`\\b${view}\\b`).test(text));
  const columns = new Map<string, Completion>();
  for (const [view, found] of named) {
    for (const column of found) {
      const known = columns.get(column.label);
      columns.set(column.label, {
        ...column,
        detail: known === undefined ? `${column.detail} · ${view}` : (column.detail ?? ""),
        boost: 20,
      });
    }
  }
  return { from: before.from, options: [...columns.values(), ...functions], validFor: /^\w*$/ };
}
