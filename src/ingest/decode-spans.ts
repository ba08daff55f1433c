import { type DecodeContext } from "./decode-context.js";
import type { TableState } from "./table-state.js";
export function decodeSpan(
  _context: DecodeContext,
  _table: TableState<"spans">,
  _start: number,
  _end: number,
  _depth: number,
): void {}
