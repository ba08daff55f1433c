/**
 * Any legal message, read by its plan: fields in any order, the last of those that may not repeat, occurrences of a message
 * merged, unknown fields skipped. It leaves what the scanner leaves, and reads what the scanner does not.
 */
import type { Utf8Column } from "../../../lake/tables/columns.js";
import { appendAttribute, appendValueText, closeAttributes } from "../any-value.js";
import type { DecodeContext } from "../decode-context.js";
import { appendId } from "../fields.js";
import { appendText } from "../text.js";
import { rangeOf } from "./message-scanner.js";
import { actions, plans, type ScanPlan } from "./plan.js";

/** Decodes an element of a list in `[start, end)`. */
type DecodeElement = (list: number, start: number, end: number) => void;

/**
 * Reads the message at `[start, end)` to the scanner's fields and the unfinished values of `columns`. Text that is not UTF-8
 * sets `badText`. Throws MalformedError.
 * @param depth of the message.
 */
export function readMessage(
  context: DecodeContext,
  plan: ScanPlan,
  columns: readonly Utf8Column[],
  start: number,
  end: number,
  depth: number,
  decodeElement?: DecodeElement,
): void {
  const bodies: number[] = [];
  readFields(context, plan, columns, start, end, depth, bodies, decodeElement);
  const { fields } = context.scanner;
  for (const { action, column } of plan.texts) {
    const target = columns[column]!;
    const range = rangeOf(column);
    if (action === "attribute") {
      closeAttributes(target);
    } else if (action === "body") {
      fields[range] = appendValueText(context, bodies, depth + 1, target);
    } else {
      appendRange(context, action, fields[range]!, fields[range + 1]!, target);
    }
  }
}

function appendRange(context: DecodeContext, action: "text" | "id", start: number, end: number, to: Utf8Column): void {
  const { reader } = context;
  if (action === "id") {
    appendId(reader, start, end, to);
  } else if (!appendText(reader, start, end, to)) {
    context.badText = true;
  }
}

function readFields(
  context: DecodeContext,
  plan: ScanPlan,
  columns: readonly Utf8Column[],
  start: number,
  end: number,
  depth: number,
  bodies: number[],
  decodeElement?: DecodeElement,
): void {
  const { reader, scanner } = context;
  const { fields } = scanner;
  const setNumber = (field: number): void => {
    fields[2 * field] = reader.low;
    fields[2 * field + 1] = reader.high;
  };
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    const action = plan.action(tag);
    const argument = plan.argument(tag);
    switch (action) {
      case actions.fixed64:
        reader.fixed64(pos);
        setNumber(argument);
        pos = reader.next;
        break;
      case actions.fixed32:
        fields[2 * argument] = reader.view.getInt32(pos, true);
        pos += 4;
        break;
      case actions.varint:
        reader.varint(pos);
        setNumber(argument);
        pos = reader.next;
        break;
      case actions.choice:
        reader.fixed64(pos);
        setNumber(argument & 15);
        fields[2 * ((argument & 15) + 1)] = argument >> 4;
        pos = reader.next;
        break;
      case actions.none:
        pos = reader.skip(tag, pos, end, depth);
        break;
      default: {
        const stop = reader.delimited(pos, end);
        readDelimited(context, action, argument, columns, reader.next, stop, depth, bodies, decodeElement);
        pos = stop;
      }
    }
  }
  reader.finished(pos, end);
}

function readDelimited(
  context: DecodeContext,
  action: number,
  argument: number,
  columns: readonly Utf8Column[],
  start: number,
  end: number,
  depth: number,
  bodies: number[],
  decodeElement?: DecodeElement,
): void {
  switch (action) {
    case actions.attribute:
      appendAttribute(context, start, end, depth + 1, columns[argument]!);
      break;
    case actions.body:
      bodies.push(start, end);
      break;
    case actions.element:
      decodeElement?.(argument, start, end);
      break;
    case actions.part:
      context.reader.enter(depth + 1);
      readFields(context, plans[argument]!, columns, start, end, depth + 1, bodies);
      break;
    default: {
      const range = rangeOf(argument);
      context.scanner.fields[range] = start;
      context.scanner.fields[range + 1] = end;
    }
  }
}
