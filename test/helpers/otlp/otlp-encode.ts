/**
 * Encodes plain OTLP data the hard way: fields in any order, unknown fields of every wire type in
 * between (groups too), repeated scalars packed or not, varints longer than they need be.
 */
import type protobuf from "protobufjs";

import { ProtobufWriter } from "../../../src/wire/protobuf-writer.js";
import { type PlainMessage, requestType } from "./otlp-proto.js";

/** Numbers in [0, bound), reproducible from a seed. */
export function createDice(seed: number): (bound: number) => number {
  let state = (seed ^ 0x9e3779b9) | 1;
  return (bound) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % bound;
  };
}

type Dice = (bound: number) => number;

function splitLong(value: bigint): [number, number] {
  const bits = BigInt.asUintN(64, value);
  return [Number(bits & 0xffffffffn) | 0, Number(bits >> 32n) | 0];
}

function writeScalar(w: ProtobufWriter, type: string, value: unknown): void {
  switch (type) {
    case "bool":
    case "uint32":
      w.varint32(Number(value));
      return;
    case "int32":
      w.varint64(Number(value) | 0, Number(value) < 0 ? -1 : 0);
      return;
    case "sint32": {
      const number = Number(value) | 0;
      w.varint32((number << 1) ^ (number >> 31));
      return;
    }
    case "int64":
    case "uint64":
      w.varint64(...splitLong(BigInt(value as string)));
      return;
    case "fixed64":
    case "sfixed64":
      w.fixed64(...splitLong(BigInt(value as string)));
      return;
    case "fixed32":
      w.fixed32(Number(value));
      return;
    case "double":
      w.double(value as number);
      return;
    default:
      throw new Error(`no scalar type ${type}`);
  }
}

const wireTypes: Record<string, number> = {
  double: 1,
  fixed64: 1,
  sfixed64: 1,
  fixed32: 5,
};

/** A field that no version of OTLP has. */
function writeUnknown(w: ProtobufWriter, dice: Dice, depth: number): void {
  const field = 1000 + dice(50_000);
  switch (dice(depth > 3 ? 4 : 5)) {
    case 0:
      w.tag(field, 0);
      w.varint64(dice(2 ** 31), dice(2 ** 31));
      return;
    case 1:
      w.tag(field, 1);
      w.fixed64(dice(2 ** 31), dice(2 ** 31));
      return;
    case 2:
      w.bytesField(
        field,
        Uint8Array.from({ length: dice(20) }, () => dice(256)),
      );
      return;
    case 3:
      w.tag(field, 5);
      w.fixed32(dice(2 ** 31));
      return;
    default:
      w.tag(field, 3);
      for (let count = dice(3); count > 0; count--) {
        writeUnknown(w, dice, depth + 1);
      }
      w.tag(field, 4);
  }
}

function encodeField(w: ProtobufWriter, field: protobuf.Field, value: unknown, dice: Dice): void {
  if (field.resolvedType !== null) {
    w.tag(field.id, 2);
    const mark = w.open();
    encodeMessage(w, field.resolvedType as protobuf.Type, value as PlainMessage, dice);
    w.close(mark);
  } else if (field.type === "string") {
    w.bytesField(field.id, Buffer.from(value as string));
  } else if (field.type === "bytes") {
    w.bytesField(field.id, Uint8Array.from(value as number[]));
  } else {
    w.tag(field.id, wireTypes[field.type] ?? 0);
    writeScalar(w, field.type, value);
  }
}

function encodeMessage(w: ProtobufWriter, type: protobuf.Type, message: PlainMessage, dice: Dice): void {
  // One queue per field keeps the order of its elements; the queues are emptied in random order.
  const queues: (() => void)[][] = [];
  for (const field of type.fieldsArray) {
    field.resolve();
    const value = message[field.name];
    if (value === undefined) {
      continue;
    }
    if (!field.repeated) {
      queues.push([() => encodeField(w, field, value, dice)]);
      continue;
    }
    const elements = value as readonly unknown[];
    const isScalar = field.resolvedType === null && field.type !== "string" && field.type !== "bytes";
    if (isScalar && dice(2) === 0) {
      queues.push([
        () => {
          w.tag(field.id, 2);
          const mark = w.open();
          for (const element of elements) {
            writeScalar(w, field.type, element);
          }
          w.close(mark);
        },
      ]);
    } else {
      queues.push(elements.map((element) => () => encodeField(w, field, element, dice)));
    }
  }
  for (let pending = queues.filter((queue) => queue.length > 0); pending.length > 0;) {
    if (dice(12) === 0) {
      writeUnknown(w, dice, 0);
    }
    pending[dice(pending.length)]?.shift()?.();
    pending = pending.filter((queue) => queue.length > 0);
  }
}

/** The request as bytes, in one of many legal encodings picked by the seed. */
export function encodeShuffled(signal: 1 | 2 | 3, message: PlainMessage, seed: number): Uint8Array {
  const w = new ProtobufWriter();
  encodeMessage(w, requestType(signal), message, createDice(seed));
  return w.output().slice();
}
