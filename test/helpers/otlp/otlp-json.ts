/**
 * Plain OTLP data as OTLP/JSON text, in one of many legal spellings picked by the dice: either name of a field, 64-bit
 * integers as strings or numbers, escapes that are not needed, white space, nulls for absent fields, unknown fields.
 */
import type protobuf from "protobufjs";

import { createDice } from "./otlp-encode.js";
import { type PlainMessage, requestType } from "./otlp-proto.js";

type Dice = (bound: number) => number;

function jsonString(text: string, dice: Dice): string {
  let json = "";
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    json +=
      dice(9) === 0
        ? `\\u${unit.toString(16).padStart(4, "0")}`
        : unit === 0x2f && dice(2) === 0
          ? "\\/"
          : JSON.stringify(text[index]).slice(1, -1);
  }
  // JSON.stringify escapes each half of a surrogate pair that it sees alone: put pairs together again.
  return `"${json.replaceAll(/\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/gu, (escape, high: string, low: string) =>
    dice(3) === 0 ? escape : String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16)),
  )}"`;
}

function jsonInteger(value: unknown, dice: Dice): string {
  const digits = String(value);
  switch (dice(6)) {
    case 0:
    case 1:
      return digits;
    case 2:
      return `${digits}.0`;
    case 3:
      return digits === "0" ? "0e0" : `"${digits}0e-1"`;
    default:
      return `"${digits}"`;
  }
}

function jsonDouble(value: number, dice: Dice): string {
  if (!Number.isFinite(value)) {
    return `"${value}"`;
  }
  const digits = Object.is(value, -0) ? "-0" : String(value);
  return dice(4) === 0 ? `"${digits}"` : digits;
}

function jsonUnknown(dice: Dice, depth: number): string {
  switch (dice(depth > 3 ? 5 : 7)) {
    case 0:
      return "null";
    case 1:
      return "true";
    case 2:
      return "-1.5e+10";
    case 3:
      return '"\\ud83d\\ude00 \\n"';
    case 4:
      return "false";
    case 5:
      return `[${Array.from({ length: dice(3) }, () => jsonUnknown(dice, depth + 1)).join(" , ")}]`;
    default:
      return `{${dice(2) === 0 ? "" : `"a":${jsonUnknown(dice, depth + 1)}`}}`;
  }
}

function jsonValue(field: protobuf.Field, value: unknown, dice: Dice): string {
  if (field.resolvedType !== null) {
    return jsonMessage(field.resolvedType as protobuf.Type, value as PlainMessage, dice);
  }
  switch (field.type) {
    case "string":
      return jsonString(value as string, dice);
    case "bytes": {
      const bytes = Buffer.from(value as number[]);
      if (field.name !== "bytesValue") {
        const hex = bytes.toString("hex");
        return `"${dice(2) === 0 ? hex.toUpperCase() : hex}"`;
      }
      return `"${bytes.toString(dice(2) === 0 ? "base64" : "base64url")}"`;
    }
    case "bool":
      return String(value);
    case "double":
      return jsonDouble(value as number, dice);
    case "int32":
      // Enums, which protobufjs is not told are enums.
      return String(value);
    default:
      return jsonInteger(value, dice);
  }
}

function jsonMessage(type: protobuf.Type, message: PlainMessage, dice: Dice): string {
  const members: string[] = [];
  const space = (): string => (dice(10) === 0 ? " \n\t\r" : "");
  for (const field of type.fieldsArray) {
    field.resolve();
    const value = message[field.name];
    const snake = field.name.replaceAll(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`);
    const name = dice(2) === 0 ? field.name : snake;
    const key = `${dice(20) === 0 ? jsonString(name, () => 0) : `"${name}"`}${space()}:${space()}`;
    if (value === undefined) {
      if (dice(10) === 0) {
        members.push(`${key}null`);
      }
    } else if (field.repeated) {
      const elements = (value as readonly unknown[]).map((element) => jsonValue(field, element, dice));
      members.push(`${key}[${elements.join(`${space()},`)}]`);
    } else {
      members.push(key + jsonValue(field, value, dice));
    }
    if (dice(12) === 0) {
      members.push(`"unknown${dice(5)}é":${jsonUnknown(dice, 0)}`);
    }
  }
  return `{${space()}${members.join(`,${space()}`)}${space()}}`;
}

/** The request as OTLP/JSON. */
export function toOtlpJson(signal: 1 | 2 | 3, message: PlainMessage, seed: number): string {
  return jsonMessage(requestType(signal), message, createDice(seed));
}
