/**
 * Thrift's compact protocol, the writing half that Parquet metadata needs.
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */
import type { ByteBuffer } from "./byte-buffer.js";

const typeTrue = 1;
const typeFalse = 2;
const typeByte = 3;
const typeI16 = 4;
const typeI32 = 5;
const typeI64 = 6;
const typeBinary = 8;
const typeList = 9;
const typeStruct = 12;

/** Element types of lists. */
export const thriftElement = {
  i32: typeI32,
  binary: typeBinary,
  list: typeList,
  struct: typeStruct,
} as const;

const utf8 = new TextEncoder();

/**
 * Writes structs field by field, in ascending field order. `structField` and `beginStruct` open one
 * level, `endStruct` closes it; the caller keeps them paired.
 */
export class ThriftWriter {
  readonly out: ByteBuffer;
  #lastField = 0;
  readonly #outer: number[] = [];

  constructor(out: ByteBuffer) {
    this.out = out;
  }

  i8(field: number, value: number): void {
    this.#header(field, typeByte);
    this.out.byte(value & 0xff);
  }

  i16(field: number, value: number): void {
    this.#header(field, typeI16);
    this.out.zigzag(value);
  }

  i32(field: number, value: number): void {
    this.#header(field, typeI32);
    this.out.zigzag(value);
  }

  /** A safe integer. */
  i64(field: number, value: number): void {
    this.#header(field, typeI64);
    this.out.zigzag(value);
  }

  bool(field: number, value: boolean): void {
    this.#header(field, value ? typeTrue : typeFalse);
  }

  binary(field: number, value: Uint8Array): void {
    this.#header(field, typeBinary);
    this.out.varint(value.length);
    this.out.append(value);
  }

  string(field: number, value: string): void {
    this.binary(field, utf8.encode(value));
  }

  /** Opens a struct-valued field. */
  structField(field: number): void {
    this.#header(field, typeStruct);
    this.beginStruct();
  }

  /** Opens a struct that is a list element or the top level. */
  beginStruct(): void {
    this.#outer.push(this.#lastField);
    this.#lastField = 0;
  }

  endStruct(): void {
    this.out.byte(0);
    this.#lastField = this.#outer.pop() ?? 0;
  }

  /** An empty struct as field: how unions say which member they are. */
  emptyStruct(field: number): void {
    this.structField(field);
    this.endStruct();
  }

  /** The head of a list; `count` elements must follow on `out`. */
  listField(field: number, elementType: number, count: number): void {
    this.#header(field, typeList);
    if (count < 15) {
      this.out.byte((count << 4) | elementType);
    } else {
      this.out.byte(0xf0 | elementType);
      this.out.varint(count);
    }
  }

  /** Field bytes that were encoded before; they must end with `field` and begin right after the last one. */
  encodedFields(bytes: Uint8Array, field: number): void {
    this.out.append(bytes);
    this.#lastField = field;
  }

  #header(field: number, type: number): void {
    const delta = field - this.#lastField;
    if (delta > 0 && delta <= 15) {
      this.out.byte((delta << 4) | type);
    } else {
      this.out.byte(type);
      this.out.zigzag(field);
    }
    this.#lastField = field;
  }
}
