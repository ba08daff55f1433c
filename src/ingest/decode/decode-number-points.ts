/** NumberDataPoint (opentelemetry/proto/metrics/v1) into the columns of measures. Hot code. */
import type { TableState } from "../rows/table-state.js";
import { type DecodeContext, decodedCost } from "./decode-context.js";
import { decodeExemplar, numberKind } from "./decode-exemplars.js";
import { badTimes, pushOptionalTime } from "./fields.js";
import { highWord, int64ToDouble, lowWord } from "./numbers.js";
import { ScanPlan } from "./scan/plan.js";
import { readMessage } from "./scan/read-message.js";

/** Numbers of a point, as the scanner leaves them. */
const field = { start: 0, time: 1, value: 2, kind: 3, flags: 4 } as const;
const exemplars = 0;

const plan = new ScanPlan()
  .number(0x11, "fixed64", field.start)
  .number(0x19, "fixed64", field.time)
  .choice(0x21, field.value, numberKind.double)
  .element(0x2a, exemplars)
  .choice(0x31, field.value, numberKind.int)
  .attribute(0x3a)
  .number(0x40, "varint", field.flags);

/**
 * Decodes the point in `[start, end)`; `depth` is its own. What belongs to the metric (runs, and
 * is_monotonic) is left to the caller. A rejected point leaves no row.
 */
export function decodeNumberPoint(
  context: DecodeContext,
  table: TableState<"measures">,
  start: number,
  end: number,
  depth: number,
): void {
  const { reader, scanner } = context;
  const { columns } = table;
  const row = columns.time.validity.rows;
  const textBefore = columns.properties.byteLength;
  reader.enter(depth);
  table.texts ??= [columns.properties];
  if (!scanner.scan(plan, table.texts, start, end)) {
    readMessage(context, plan, table.texts, start, end, depth, (_list, from, to) =>
      decodeExemplar(context, columns.exemplars, from, to, depth + 1),
    );
  }
  const { fields, elements } = scanner;
  for (let at = 0; at < 3 * scanner.elementCount; at += 3) {
    decodeExemplar(context, columns.exemplars, elements[at + 1]!, elements[at + 2]!, depth + 1);
  }
  const startLow = fields[2 * field.start]!;
  const startHigh = fields[2 * field.start + 1]!;
  let timeLow = fields[2 * field.time]!;
  let timeHigh = fields[2 * field.time + 1]!;
  const kind = fields[2 * field.kind]!;
  const valueLow = fields[2 * field.value]!;
  const valueHigh = fields[2 * field.value + 1]!;
  context.problem ??= badTimes(startLow, startHigh, timeLow, timeHigh);
  if ((timeLow | timeHigh) === 0) {
    timeLow = context.receivedLow;
    timeHigh = context.receivedHigh;
  }

  columns.time.push(timeLow, timeHigh);
  pushOptionalTime(startLow, startHigh, columns.start_time);
  if (kind === numberKind.int) {
    const low = lowWord(int64ToDouble(valueLow, valueHigh));
    columns.value.push(low, highWord());
    columns.value_int.push(valueLow, valueHigh);
  } else {
    if (kind === numberKind.double) {
      columns.value.push(valueLow, valueHigh);
    } else {
      columns.value.pushNull();
    }
    columns.value_int.pushNull();
  }
  columns.flags.push(fields[2 * field.flags]!, 0);
  columns.properties.finish();
  columns.exemplars.finish();

  context.charge(decodedCost.row + end - start + columns.properties.byteLength - textBefore);
  if (context.settle()) {
    context.noteTime(timeLow, timeHigh);
  } else {
    table.truncate(row);
  }
}
