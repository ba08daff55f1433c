/** The DuckDB instances that queries run on, and what is common to the jobs for them. */
import type { EngineInstance } from "../../engine/supervisor.js";
import type { EngineStep, StepResult } from "../../engine/protocol.js";
import { ServiceError } from "../../runtime/errors.js";
import { withNumerals } from "../gate/syntax-tree.js";
import { sqlMacros } from "../sql/sql-macros.js";

const setup = sqlMacros.map((macro) => `CREATE MACRO ${macro}`);

/** Reaches no file at all: for parsing, and for describing queries over empty views. */
export const inspectInstance: EngineInstance = {
  key: "inspect",
  directories: [],
  paths: [],
  setup,
};

/**
 * Reaches exactly these directories. Callers who read the same share an instance, one after the other, and nobody
 * else does.
 */
export function lakeInstance(directories: readonly string[]): EngineInstance {
  const sorted = directories.toSorted();
  return { key: `lake ${JSON.stringify(sorted)}`, directories: sorted, paths: [], setup };
}

/**
 * Runs steps as one job on {@link inspectInstance}.
 * @throws Error with DuckDB's words; ServiceError when there is no engine, or no time
 */
export type RunSteps = (steps: readonly EngineStep[]) => Promise<readonly StepResult[]>;

/** Most text that one statement of ours may bring back: a tree is larger than its text. */
const maxTextBytes = 64 << 20;

type RowsStep = EngineStep & { readonly kind: "rows" };

/** A statement from one text to another. */
function textStep(sql: string, text: string): RowsStep {
  const values = [{ type: "VARCHAR", text }];
  return { kind: "rows", sql, values, maxBytes: maxTextBytes };
}

/** Parses a text. The result is for {@link textResult}. */
export function serializeStep(text: string): RowsStep {
  return textStep("SELECT json_serialize_sql($1::VARCHAR)", text);
}

/** Makes SQL of a tree, which is given as JSON. The result is for {@link printedResult}. */
export function deserializeStep(tree: string): RowsStep {
  return textStep("SELECT json_deserialize_sql($1::JSON)", tree);
}

/** The one text that a step brought. */
export function textResult(result: StepResult | undefined): string {
  const text = result?.rows?.[0]?.[0];
  if (typeof text === "string") {
    return text;
  }
  throw new ServiceError("INTERNAL", undefined, {
    cause: new TypeError(result?.error ?? "an engine returned no text"),
  });
}

/** The SQL that {@link deserializeStep} brought. */
export function printedResult(result: StepResult | undefined): string {
  return withNumerals(textResult(result));
}
