/** What the answer to an everyday question is made of. */
import { msOf, type ShopModel } from "./shop-model.js";

/** A row by column. Numbers are compared to ten digits; a function says whether a value will do. */
export type AnswerRow = Readonly<
  Record<string, number | string | null | readonly string[] | ((found: unknown) => boolean)>
>;

/** What the answer to a question has to be. */
export interface ShopAnswer {
  /** Columns that tell rows apart; none: there is one row. */
  readonly keys: readonly string[];
  /** The column by which the rows come, 1: upwards. */
  readonly order?: readonly [column: string, direction: 1 | -1];
  readonly rows: readonly AnswerRow[];
}

/** Items by a key, in the order in which the keys come. */
export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) {
      groups.set(keyOf(item), [item]);
    } else {
      group.push(item);
    }
  }
  return [...groups.values()];
}

/** Their sum. */
export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
/** Their arithmetic mean. */
export const mean = (values: readonly number[]): number => sum(values) / values.length;

/** Begin of the hour that a time of the shop is in, milliseconds since 1970. */
export function hourOf(model: ShopModel, ns: number): number {
  return Math.floor(msOf(model, ns) / 3.6e6) * 3.6e6;
}
