/** Schemas that engines send (format/Schema.fbs), with every type that {@link ArrowField} has. */
import { type ArrowField, type ArrowType, timeUnits, type TimeUnit, typeNumbers } from "./flight-arrow.js";
import { FlatBuffer } from "./flight-arrow-read.js";

const kinds = new Map(
  (Object.entries(typeNumbers) as [ArrowType["kind"], number][]).map(([kind, number]) => [number, kind]),
);
const units = Object.keys(timeUnits) as TimeUnit[];
const intBits = [8, 16, 32, 64] as const;

/**
 * The fields of a schema message.
 * @param message as FlightData.data_header holds it
 * @throws TypeError for a type that {@link ArrowField} does not have; RangeError when it is cut short
 */
export function decodeSchemaMessage(message: Uint8Array): ArrowField[] {
  const buffer = new FlatBuffer(message);
  return fieldsOf(buffer, buffer.table(buffer.root(), 2), 1);
}

function fieldsOf(buffer: FlatBuffer, table: number, slot: number): ArrowField[] {
  return Array.from({ length: buffer.vectorLength(table, slot, 4) }, (_, i) =>
    fieldOf(buffer, buffer.tableOf(table, slot, i)),
  );
}

function fieldOf(buffer: FlatBuffer, field: number): ArrowField {
  const metadata = Array.from({ length: buffer.vectorLength(field, 6, 4) }, (_, i) => {
    const entry = buffer.tableOf(field, 6, i);
    return [buffer.string(entry, 0), buffer.string(entry, 1)] as const;
  });
  return {
    name: buffer.string(field, 0),
    nullable: buffer.uint8(field, 1) !== 0,
    type: typeOf(buffer, field),
    children: fieldsOf(buffer, field, 5),
    ...(metadata.length === 0 ? {} : { metadata: Object.fromEntries(metadata) }),
    ...(buffer.has(field, 4) ? { dictionary: dictionaryOf(buffer, buffer.table(field, 4)) } : {}),
  };
}

function dictionaryOf(buffer: FlatBuffer, encoding: number): ArrowField["dictionary"] & object {
  const bits = buffer.int32(buffer.table(encoding, 1), 0, 0);
  if (bits !== 8 && bits !== 16 && bits !== 32) {
    throw strange(`indices of ${bits} bits`);
  }
  return { id: buffer.int64(encoding, 0), indexBits: bits };
}

function typeOf(buffer: FlatBuffer, field: number): ArrowType {
  const number = buffer.uint8(field, 2);
  const kind = kinds.get(number);
  const type = buffer.table(field, 3);
  switch (kind) {
    case undefined:
      throw strange(`type ${number}`);
    case "int": {
      const bits = intBits.find((known) => known === buffer.int32(type, 0, 0));
      if (bits === undefined) {
        throw strange("an integer");
      }
      return { kind, bits, signed: buffer.uint8(type, 1) !== 0 };
    }
    case "float":
      return { kind, bits: buffer.int16(type, 0, 0) === 1 ? 32 : 64 };
    case "decimal": {
      const bits = buffer.int32(type, 2, 128) === 256 ? 256 : 128;
      return { kind, precision: buffer.int32(type, 0, 0), scale: buffer.int32(type, 1, 0), bits };
    }
    case "time32":
    case "time64": {
      const unit = unitOf(buffer.int16(type, 0, timeUnits.millisecond));
      if (unit !== "microsecond" && unit !== "nanosecond") {
        throw strange(`a time of ${unit}s`);
      }
      return { kind: "time64", unit };
    }
    case "timestamp": {
      const timezone = buffer.has(type, 1) ? buffer.string(type, 1) : null;
      return { kind, unit: unitOf(buffer.int16(type, 0, timeUnits.second)), timezone };
    }
    case "fixed_size_list":
      return { kind, size: buffer.int32(type, 0, 0) };
    case "union":
      return { kind, mode: buffer.int16(type, 0, 0) === 0 ? "sparse" : "dense" };
    case "null":
    case "bool":
    case "utf8":
    case "binary":
    case "date32":
    case "interval":
    case "list":
    case "struct":
    case "map":
      return { kind };
  }
}

function unitOf(number: number): TimeUnit {
  const unit = units[number];
  if (unit === undefined) {
    throw strange(`unit ${number}`);
  }
  return unit;
}

function strange(what: string): TypeError {
  return new TypeError(`an engine's schema has ${what}, which is not known here`);
}
