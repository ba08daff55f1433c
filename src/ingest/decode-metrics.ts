import type { AudienceRows } from "./audience-rows.js";
import { type DecodeContext } from "./decode-context.js";
export function decodeMetric(
  _context: DecodeContext,
  _rows: AudienceRows,
  _start: number,
  _end: number,
  _depth: number,
): void {}
