/** An ArrowSchema of C (Arrow C data interface) as fields, and as the layout that their arrays have. */
import type { ArrowField, ArrowType, TimeUnit } from "../../../wire/flight/flight-arrow.js";
import { type Native, DuckDbError } from "../connection.js";
import type { FieldNames } from "../../protocol.js";
import type { Pointer } from "../library.js";

/** How the values of an array lie in memory (Arrow columnar format, "Physical memory layout"). */
export type Layout =
  | { readonly kind: "null" | "bits" | "struct" | "union" }
  | { readonly kind: "fixed"; readonly bytes: number }
  /** Integers of 16 bytes, of which a message holds the lower eight; the name is the column's. */
  | { readonly kind: "narrowed"; readonly name: string }
  /** Offsets of 32 bits, and bytes or one child. */
  | { readonly kind: "bytes" | "list" }
  /** One child with this many values for each row. */
  | { readonly kind: "fixed_list"; readonly size: number };

/** A field, and how its arrays are laid out: those of its indices when it has a dictionary. */
export interface NativeField {
  readonly name: string;
  readonly nullable: boolean;
  readonly type: ArrowType;
  readonly layout: Layout;
  readonly children: readonly NativeField[];
  /** Bits of the indices; null where there is no dictionary. */
  readonly indexBits: 8 | 16 | 32 | null;
  readonly metadata: Readonly<Record<string, string>> | null;
}

/** A field of texts, as the values of a dictionary are. */
export const textField: NativeField = {
  name: "",
  nullable: true,
  type: { kind: "utf8" },
  layout: { kind: "bytes" },
  children: [],
  indexBits: null,
  metadata: null,
};

/**
 * The field of a column of HUGEINT, as which DuckDB types every sum of integers: an int64, because many clients cannot
 * read a decimal, and sums beyond 64 bits are rare. The message writer refuses those.
 */
export function narrowed(field: NativeField): NativeField {
  return { ...field, type: { kind: "int", bits: 64, signed: true }, layout: { kind: "narrowed", name: field.name } };
}

/** Fields with other names, those within them too, wherever there are as many. */
export function renamed(fields: readonly NativeField[], names: readonly FieldNames[]): readonly NativeField[] {
  if (names.length !== fields.length) {
    return fields;
  }
  return fields.map((field, i) => {
    const { name, children } = names[i] ?? field;
    return { ...field, name, children: renamed(field.children, children) };
  });
}

/** Bytes of struct ArrowSchema. */
export const schemaBytes = 72;
const nullableFlag = 2;

/** Reads a schema, which its owner keeps. @throws DuckDbError for a type that does not exist here */
export function readSchema(native: Native, schema: Pointer): NativeField {
  const { memory } = native;
  memory.load(schema, schemaBytes);
  const [format, name, metadata, flags, childCount, children, dictionary] = Array.from({ length: 7 }, (_, i) =>
    memory.pointer(i * 8),
  ) as [number, number, number, number, number, number, number];
  const own = typeOf(memory.text(format), memory.text(name));
  const values = dictionary === 0 ? null : readSchema(native, dictionary);
  return {
    name: memory.text(name),
    nullable: (flags & nullableFlag) !== 0,
    type: values === null ? own.type : values.type,
    layout: own.layout,
    children: Array.from({ length: childCount }, (_, i) => readSchema(native, memory.pointerAt(children + i * 8))),
    indexBits: values === null ? null : indexBits(own.layout),
    metadata: metadata === 0 ? null : readMetadata(native, metadata),
  };
}

function indexBits(layout: Layout): 8 | 16 | 32 {
  const bits = layout.kind === "fixed" ? layout.bytes * 8 : 0;
  if (bits === 8 || bits === 16 || bits === 32) {
    return bits;
  }
  throw new DuckDbError("Not implemented Error: a dictionary has indices of a strange type");
}

/** Number of pairs, then each key and value with its length in front. */
function readMetadata({ memory }: Native, metadata: Pointer): Record<string, string> {
  memory.load(metadata, 4);
  const pairs: Record<string, string> = {};
  let at = metadata + 4;
  const next = (): string => {
    memory.load(at, 4);
    const length = memory.int32(0);
    const text = Buffer.from(memory.bytes(at + 4, length)).toString();
    at += 4 + length;
    return text;
  };
  for (let left = memory.int32(0); left > 0; left--) {
    const key = next();
    pairs[key] = next();
  }
  return pairs;
}

type Typed = readonly [ArrowType, Layout];

const fixed = (bytes: number): Layout => ({ kind: "fixed", bytes });
const int = (bits: 8 | 16 | 32 | 64, signed: boolean): Typed => [{ kind: "int", bits, signed }, fixed(bits / 8)];

/** Formats without parameters (Arrow C data interface, "Data type description"). */
const plainTypes: Readonly<Record<string, Typed>> = {
  n: [{ kind: "null" }, { kind: "null" }],
  b: [{ kind: "bool" }, { kind: "bits" }],
  c: int(8, true),
  C: int(8, false),
  s: int(16, true),
  S: int(16, false),
  i: int(32, true),
  I: int(32, false),
  l: int(64, true),
  L: int(64, false),
  f: [{ kind: "float", bits: 32 }, fixed(4)],
  g: [{ kind: "float", bits: 64 }, fixed(8)],
  u: [{ kind: "utf8" }, { kind: "bytes" }],
  z: [{ kind: "binary" }, { kind: "bytes" }],
  tdD: [{ kind: "date32" }, fixed(4)],
  ttu: [{ kind: "time64", unit: "microsecond" }, fixed(8)],
  ttn: [{ kind: "time64", unit: "nanosecond" }, fixed(8)],
  tin: [{ kind: "interval" }, fixed(16)],
  "+l": [{ kind: "list" }, { kind: "list" }],
  "+m": [{ kind: "map" }, { kind: "list" }],
  "+s": [{ kind: "struct" }, { kind: "struct" }],
};

const units: Readonly<Record<string, TimeUnit>> = {
  s: "second",
  m: "millisecond",
  u: "microsecond",
  n: "nanosecond",
};

function typeOf(format: string, name: string): { type: ArrowType; layout: Layout } {
  const [type, layout] = plainTypes[format] ?? parameterType(format) ?? [];
  if (type === undefined || layout === undefined) {
    throw new DuckDbError(
      `Not implemented Error: the column ${JSON.stringify(name)} is of the Arrow type ${JSON.stringify(format)}; cast it to VARCHAR`,
    );
  }
  return { type, layout };
}

function parameterType(format: string): Typed | undefined {
  const timestamp = /^ts([smun]):(.*)$/su.exec(format);
  const unit = units[timestamp?.[1] ?? ""];
  if (unit !== undefined) {
    const timezone = timestamp?.[2] ?? "";
    return [{ kind: "timestamp", unit, timezone: timezone === "" ? null : timezone }, fixed(8)];
  }
  const decimal = /^d:(\d+),(\d+)(?:,128)?$/u.exec(format);
  if (decimal !== null) {
    const [precision, scale] = [Number(decimal[1]), Number(decimal[2])];
    return [{ kind: "decimal", precision, scale, bits: 128 }, fixed(16)];
  }
  const list = /^\+w:(\d+)$/u.exec(format);
  if (list !== null) {
    const size = Number(list[1]);
    return [
      { kind: "fixed_size_list", size },
      { kind: "fixed_list", size },
    ];
  }
  // The ids of the members are their places.
  return format.startsWith("+us:") ? [{ kind: "union", mode: "sparse" }, { kind: "union" }] : undefined;
}

/** Gives each field with a dictionary the id that its turn, depth first, has in `ids`. */
export function toArrowFields(fields: readonly NativeField[], ids: readonly number[]): ArrowField[] {
  let next = 0;
  const convert = (field: NativeField): ArrowField => {
    const { name, nullable, type, indexBits, metadata } = field;
    const dictionary = indexBits === null ? {} : { dictionary: { id: ids[next++] ?? 0, indexBits } };
    return {
      name,
      nullable,
      type,
      children: field.children.map(convert),
      ...dictionary,
      ...(metadata === null ? {} : { metadata }),
    };
  };
  return fields.map(convert);
}
