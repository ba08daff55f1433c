/**
 * What the scanner does with the fields of a message: for each tag an action, and what it is for. Numbers go to fields
 * (two words each), texts to columns, whose numbers are their places in the list that comes with each call.
 */

/** Numbers of the actions; assembly/scan.ts says the same. */
export const actions = {
  none: 0,
  fixed64: 1,
  fixed32: 2,
  varint: 3,
  choice: 4,
  text: 5,
  id: 6,
  attribute: 7,
  body: 8,
  part: 9,
  element: 10,
} as const;

/** Bytes of a plan in the scanner's memory. */
export const planBytes = 512;
/** Plans that its memory has room for. */
const mostPlans = 16;

/** Every plan there is; scanners copy them. */
export const plans: ScanPlan[] = [];

type TextAction = "text" | "id" | "body" | "attribute";

/** Where numbers go, and texts: by the tag of the field. */
export class ScanPlan {
  readonly index = plans.length;
  /** An action for each tag below 256, then what it is for. */
  readonly bytes = new Uint8Array(planBytes);
  /** The columns that take text. */
  readonly texts: { readonly action: TextAction; readonly column: number }[] = [];

  constructor() {
    if (this.index >= mostPlans) {
      throw new Error(`there is room for ${mostPlans} plans`);
    }
    plans.push(this);
  }

  /** Eight bytes, or four, or a varint, to a field. */
  number(tag: number, wire: "fixed64" | "fixed32" | "varint", field: number): this {
    return this.#set(tag, wire, field);
  }

  /** Eight bytes to a field, and `kind` to the one behind it: what was sent last counts. */
  choice(tag: number, field: number, kind: number): this {
    return this.#set(tag, "choice", (kind << 4) | field);
  }

  /**
   * UTF-8 as it is; an id in hex digits, nothing for one of zeros; an AnyValue as text, its kind in place of where it starts.
   * Where in the request they are is noted as well.
   */
  text(tag: number, action: "text" | "id" | "body", column: number): this {
    this.texts.push({ action, column });
    return this.#set(tag, action, column);
  }

  /** An attribute: all together are a JSON object in the first column. */
  attribute(tag: number): this {
    this.texts.push({ action: "attribute", column: 0 });
    return this.#set(tag, "attribute", 0);
  }

  /** A message whose fields count as if they were our own. */
  part(tag: number, plan: ScanPlan): this {
    this.texts.push(...plan.texts);
    return this.#set(tag, "part", plan.index);
  }

  /** An element of a list, which the caller decodes. */
  element(tag: number, list: number): this {
    return this.#set(tag, "element", list);
  }

  /** What to do with a field. */
  action(tag: number): number {
    return tag < 256 ? this.bytes[tag]! : actions.none;
  }

  /** What the action is for. */
  argument(tag: number): number {
    return tag < 256 ? this.bytes[256 + tag]! : 0;
  }

  #set(tag: number, action: keyof typeof actions, argument: number): this {
    this.bytes[tag] = actions[action];
    this.bytes[256 + tag] = argument;
    return this;
  }
}
