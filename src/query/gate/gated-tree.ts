/** What the gate finds in a query. */
import type { AdminFunctionName } from "../sql/admin-functions.js";
import type { AttributeColumn } from "../sql/file-source.js";
import type { Listing, ViewName } from "../sql/views.js";
import type { NamedExpression } from "./own-columns.js";
import type { Constraint } from "./constraints.js";
import type { Tree } from "./syntax-tree.js";

/** One view that the query reads, under one name. */
export interface Scan {
  /** The table name in the executed query. */
  readonly name: string;
  readonly view: ViewName;
  /** Only this process: `view_instance`, or `process_id = '...'` wherever the view is read. */
  readonly processId: string | null;
  /** Only this trace: the argument of a function of `isTraceFunction`. */
  readonly ofTrace: string | null;
  /** One list per place that reads the view; a bound holds for the scan when every place has one. */
  readonly constraints: readonly (readonly Constraint[])[];
  /** Attributes that are read as columns. */
  readonly attributes: readonly AttributeColumn[];
  /** Conditions with constants compare `svc_compared_time` in place of `time`. */
  readonly comparesTime: boolean;
  /** All columns that it reads; null: it may read any. */
  readonly columns: readonly string[] | null;
}

/** A call of an admin function; its arguments are still expressions. */
export interface GatedCall {
  /** The table name in the executed query. */
  readonly table: string;
  readonly name: AdminFunctionName;
  readonly parameters: readonly Tree[];
}

/** What the gate let through. */
export interface GatedTree {
  readonly scans: readonly Scan[];
  readonly listings: readonly Listing[];
  readonly calls: readonly GatedCall[];
  /** Names of the macros that it calls and has to make: keys of `metricMacros`. */
  readonly macros: readonly string[];
  /** Expressions whose placeholders have to become names once the tree is printed. */
  readonly named: readonly NamedExpression[];
  /** The tree differs from the text: run the tree. */
  readonly rewritten: boolean;
}
