/** What the editor completes: views and their columns, functions, and keys of attributes within quotes. */
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { PostgreSQL, schemaCompletionSource, keywordCompletionSource } from "@codemirror/lang-sql";
import { EditorState, type Extension } from "@codemirror/state";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";

import { runQuery } from "../api/query.js";
import { useScope } from "../app/scope.js";
import { functions } from "./functions.js";

/** What there is to complete; both are asked for when they are needed, and are empty when that fails. */
interface Catalogue {
  /** Columns with their types, by view. */
  readonly views: () => Promise<ReadonlyMap<string, readonly Completion[]>>;
  readonly attributes: () => Promise<readonly Completion[]>;
}

const columnsSql = `SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = 'main' ORDER BY table_name, ordinal_position`;
const attributesSql = `SELECT key, any_value(type) AS type, string_agg(DISTINCT "view", ', ') AS views
FROM attribute_keys(now() - INTERVAL 1 DAY, now()) GROUP BY key ORDER BY sum("rows") DESC LIMIT 2000`;

async function askViews(dataSource: string | undefined, signal: AbortSignal): Promise<Map<string, Completion[]>> {
  const { columns, rows } = await runQuery({ sql: columnsSql, dataSource }, {}, signal);
  const found = new Map<string, Completion[]>();
  for (let row = 0; row < rows; row++) {
    const [view = "", label = "", detail = ""] = columns.map((column) => column.text(row));
    found.set(view, [...(found.get(view) ?? []), { label, detail: detail.toLowerCase(), type: "property" }]);
  }
  return found;
}

async function askAttributes(dataSource: string | undefined, signal: AbortSignal): Promise<Completion[]> {
  const { columns, rows } = await runQuery({ sql: attributesSql, dataSource }, {}, signal);
  return Array.from({ length: rows }, (_, row): Completion => {
    const [label = "", type = "", inViews = ""] = columns.map((column) => column.text(row));
    return { label, detail: `${type} in ${inViews}`, type: "text", apply: label.replaceAll("'", "''") };
  });
}

/** The completion of the page's data source. */
export function useSqlCompletion(): Extension {
  const { source } = useScope();
  const client = useQueryClient();
  return useMemo(() => {
    const dataSource = source ?? undefined;
    const kept = async <T>(name: string, ask: (signal: AbortSignal) => Promise<T>, otherwise: T): Promise<T> => {
      try {
        return await client.fetchQuery({
          queryKey: [name, source],
          queryFn: ({ signal }) => ask(signal),
          staleTime: 600_000,
          retry: false,
        });
      } catch {
        return otherwise; // completion is a help: the editor works without
      }
    };
    return sqlCompletion({
      views: () => kept("sql-views", (signal) => askViews(dataSource, signal), new Map<string, Completion[]>()),
      attributes: () => kept("sql-attributes", (signal) => askAttributes(dataSource, signal), [] as Completion[]),
    });
  }, [client, source]);
}

/** Completes what a catalogue has. */
function sqlCompletion(catalogue: Catalogue): Extension {
  const keywords = keywordCompletionSource(PostgreSQL, true);
  const sources = [
    keywords,
    (context: CompletionContext) => schemaSource(context, catalogue),
    (context: CompletionContext) => attributeSource(context, catalogue),
    (context: CompletionContext) => wordSource(context, catalogue),
  ];
  return EditorState.languageData.of(() => sources.map((autocomplete) => ({ autocomplete })));
}

/** Names of views, and columns behind `view.`. */
async function schemaSource(context: CompletionContext, { views }: Catalogue): Promise<CompletionResult | null> {
  if (context.matchBefore(/[\w.]+/) === null) {
    return null;
  }
  return await schemaCompletionSource({ dialect: PostgreSQL, schema: Object.fromEntries(await views()) })(context);
}

/** Within quotes behind `attr(…, '` and `->> '`. */
async function attributeSource(
  context: CompletionContext,
  { attributes }: Catalogue,
): Promise<CompletionResult | null> {
  const before = context.matchBefore(/(?:->>?\s*|(?:attr(?:_\w+)?|property_get)\s*\([^()']*,\s*)'[^']*/i);
  if (before === null) {
    return null;
  }
  const from = before.from + before.text.lastIndexOf("'") + 1;
  return { from, options: await attributes(), validFor: /^[^']*$/ };
}

/** Functions anywhere, and columns of the views that the text names. */
async function wordSource(context: CompletionContext, { views }: Catalogue): Promise<CompletionResult | null> {
  const before = context.matchBefore(/[A-Za-z_]\w*/);
  if (before === null || /[.'"]$/.test(context.state.sliceDoc(Math.max(0, before.from - 1), before.from))) {
    return null;
  }
  const text = context.state.doc.toString().toLowerCase();
  const named = [...(await views())].filter(([view]) => new RegExp(`\\b${view}\\b`).test(text));
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
