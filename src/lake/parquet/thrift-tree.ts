/**
 * Any struct in Thrift's compact protocol as a tree that can be changed and written again: what is not understood stays
 * byte for byte as it was. https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */
import { ByteBuffer } from "./byte-buffer.js";

/** A value: a struct, a list (or set), or anything else as its encoded bytes (none for a bool in a struct). */
export type Node =
  | { readonly kind: "struct"; readonly fields: Map<number, Field> }
  | { readonly kind: "list"; readonly elementType: number; readonly items: Node[] }
  | { readonly kind: "raw"; readonly bytes: Uint8Array };

/** A struct's field: the protocol's type number (which says true and false, too) and its value. */
export interface Field {
  readonly type: number;
  readonly node: Node;
}

/** Type numbers of fields. */
export const types = {
  boolTrue: 1,
  boolFalse: 2,
  i32: 5,
  i64: 6,
  list: 9,
  struct: 12,
} as const;

const maxDepth = 32;

/** Reads the struct at the beginning of some bytes. @throws {RangeError} when they are none. */
export function readStruct(bytes: Uint8Array): Node {
  return new Reader(bytes).struct(0);
}

class Reader {
  readonly #bytes: Uint8Array;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  struct(depth: number): Node {
    const fields = new Map<number, Field>();
    for (let last = 0; ;) {
      const head = this.#byte();
      if (head === 0) {
        return { kind: "struct", fields };
      }
      const type = head & 0x0f;
      const delta = head >> 4;
      const id = delta === 0 ? zigzag(this.#varint()) : last + delta;
      const isBool = type === types.boolTrue || type === types.boolFalse;
      fields.set(id, { type, node: isBool ? this.#raw(0) : this.#value(type, depth + 1) });
      last = id;
    }
  }

  #value(type: number, depth: number): Node {
    if (depth > maxDepth) {
      throw new RangeError("a Thrift struct is nested too deeply");
    }
    switch (type) {
      case 1:
      case 2:
      case 3:
        return this.#raw(1);
      case 4:
      case 5:
      case 6: {
        const start = this.at;
        this.#varint();
        return { kind: "raw", bytes: this.#bytes.subarray(start, this.at) };
      }
      case 7:
        return this.#raw(8);
      case 8: {
        const start = this.at;
        return this.#raw(this.#varint(), start);
      }
      case 9:
      case 10: {
        const head = this.#byte();
        const elementType = head & 0x0f;
        const count = head >> 4 === 15 ? this.#varint() : head >> 4;
        const items: Node[] = [];
        for (let i = 0; i < count; i++) {
          items.push(this.#value(elementType, depth + 1));
        }
        return { kind: "list", elementType, items };
      }
      case 12:
        return this.struct(depth);
      default:
        throw new RangeError(`a Thrift struct holds type ${type}`);
    }
  }

  /** @param start of what is kept, which may be before the length */
  #raw(length: number, start = this.at): Node {
    this.at += length;
    if (this.at > this.#bytes.length) {
      throw new RangeError("a Thrift struct is cut off");
    }
    return { kind: "raw", bytes: this.#bytes.subarray(start, this.at) };
  }

  #byte(): number {
    const value = this.#bytes[this.at++];
    if (value === undefined) {
      throw new RangeError("a Thrift struct is cut off");
    }
    return value;
  }

  /** A safe integer; beyond that only its length is right. */
  #varint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.#byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        return value;
      }
    }
  }
}

function zigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/** Writes a struct. */
export function writeStruct(out: ByteBuffer, node: Node): void {
  if (node.kind !== "struct") {
    throw new TypeError("not a struct");
  }
  let last = 0;
  for (const [id, { type, node: value }] of [...node.fields].toSorted(([a], [b]) => a - b)) {
    const delta = id - last;
    if (delta > 0 && delta <= 15) {
      out.byte((delta << 4) | type);
    } else {
      out.byte(type);
      out.zigzag(id);
    }
    writeValue(out, value);
    last = id;
  }
  out.byte(0);
}

function writeValue(out: ByteBuffer, node: Node): void {
  if (node.kind === "raw") {
    out.append(node.bytes);
  } else if (node.kind === "struct") {
    writeStruct(out, node);
  } else {
    const { elementType, items } = node;
    if (items.length < 15) {
      out.byte((items.length << 4) | elementType);
    } else {
      out.byte(0xf0 | elementType);
      out.varint(items.length);
    }
    for (const item of items) {
      writeValue(out, item);
    }
  }
}

/** Value of a field of a struct; null when there is none. */
export function fieldOf(node: Node | null, id: number): Node | null {
  return node?.kind === "struct" ? (node.fields.get(id)?.node ?? null) : null;
}

/** Items of a list; none for anything else. */
export function itemsOf(node: Node | null): readonly Node[] {
  return node?.kind === "list" ? node.items : [];
}

/** A safe integer out of an i16, i32 or i64. */
export function integerOf(node: Node | null): number | null {
  if (node?.kind !== "raw") {
    return null;
  }
  let value = 0;
  for (const [index, byte] of node.bytes.entries()) {
    value += (byte & 0x7f) * 128 ** index;
  }
  return zigzag(value);
}

/** A field with an integer. @param type i32 or i64 */
export function integerField(type: number, value: number): Field {
  const buffer = new ByteBuffer(16);
  buffer.zigzag(value);
  return { type, node: { kind: "raw", bytes: buffer.bytes.slice(0, buffer.length) } };
}

/** A field with a list of structs. */
export function structsField(items: Node[]): Field {
  return { type: types.list, node: { kind: "list", elementType: types.struct, items } };
}

/** A struct with other fields in the place of some, or beside them. */
export function withFields(node: Node, fields: Iterable<readonly [number, Field]>): Node {
  return { kind: "struct", fields: new Map([...(node.kind === "struct" ? node.fields : []), ...fields]) };
}

/** A struct with other integers in those of these fields that it has. */
export function withIntegers(node: Node, ids: readonly number[], change: (value: number) => number): Node {
  const changed = ids.flatMap((id): [number, Field][] => {
    const field = node.kind === "struct" ? node.fields.get(id) : undefined;
    const value = integerOf(field?.node ?? null);
    return field === undefined || value === null ? [] : [[id, integerField(field.type, change(value))]];
  });
  return withFields(node, changed);
}

/** Text out of a binary. */
export function textOf(node: Node | null): string | null {
  if (node?.kind !== "raw") {
    return null;
  }
  let start = 0;
  while ((node.bytes[start] ?? 0) >= 0x80) {
    start++;
  }
  return Buffer.from(node.bytes.subarray(start + 1)).toString("utf8");
}
