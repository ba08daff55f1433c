/** What the administrative commands are made of: an action is a request and how its answer is shown. */
import type { WebRequest } from "../../web/web-client.js";
import type { RowColumn } from "../formats/rows.js";
import type { ActionFlag, ActionValues } from "./flags.js";
import type { Follow } from "./follow.js";
import type { ListPages } from "./pages.js";
import type { Route } from "./routes.js";

/** How an answer is shown where `--json` is not given. */
export type Shown =
  | { readonly kind: "rows"; readonly columns: readonly RowColumn[] }
  | {
      readonly kind: "fields";
      /** Members that are shown in another way than the server writes them. */
      readonly rewritten?: Readonly<Record<string, (member: unknown) => unknown>>;
    }
  /** A sentence on stderr after the fields. */
  | { readonly kind: "fields-and-note"; readonly note: string }
  /** There is no body: one line instead. */
  | { readonly kind: "line"; readonly line: string };

/** What an action asks of the server. */
export interface ActionCall {
  readonly request: WebRequest;
  readonly shown: Shown;
  /** What goes on after the answer, and is waited for. */
  readonly follow?: Follow;
  /** For a list: what part of it. */
  readonly pages?: ListPages;
}

/** One action of a command, for example `telemetry groups add`. */
export interface AdminAction {
  readonly name: string;
  /** What is meant when no action is named. */
  readonly isDefault?: true;
  /** Names of its arguments; one in square brackets may be left out. */
  readonly parameters: readonly string[];
  readonly flags: readonly ActionFlag[];
  readonly help: string;
  /** @param args as many as `parameters` at most. @throws UsageError for one that cannot be. */
  call(args: readonly string[], values: ActionValues): ActionCall;
}

/** A request to a route. */
export function requestOf(
  route: Route,
  o: {
    readonly path?: Readonly<Record<string, string>>;
    readonly query?: WebRequest["query"];
    readonly body?: WebRequest["body"];
  } = {},
): WebRequest {
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(o.path?.[name] ?? ""));
  return {
    method: route.method,
    path,
    ...(o.query === undefined ? {} : { query: o.query }),
    ...(o.body === undefined ? {} : { body: o.body }),
  };
}

/** A column that shows the member `name` of each row. */
export function column(
  title: string,
  name: string,
  o: { readonly right?: boolean; readonly shrinks?: boolean } = {},
): RowColumn {
  return { title, value: (row) => row[name], ...o };
}

/** A column with a time of the server, to the second. */
export function timeColumn(title: string, name: string): RowColumn {
  return {
    title,
    value: (row) => {
      const time = row[name];
      return typeof time === "string" ? time.replace(/\.\d+(?=Z$)/, "") : time;
    },
  };
}
