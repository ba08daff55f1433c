/**
 * Reads one OTLP message (a log record, a span, a point) and writes its text into columns. Hot code, in AssemblyScript:
 * it is compiled to WebAssembly, where 16 bytes are checked and copied at once. What it may do is small on purpose: a plan
 * says what to do with each field. ../message-scanner.ts calls it, and lays out the memory.
 *
 * It takes the messages that SDKs write: each field once (attributes many times), key before value, nothing unknown. It
 * gives up on all others, for the general reader (../read-message.ts) to read them or to say what is wrong with them. It
 * reads no further than a field beyond the message, which lies in a window with room behind it, and its caller made sure
 * that what it writes, at most six bytes for one and a rest, has room.
 */

// Where things are in memory; ../message-scanner.ts says the same.
/** Two words for each number, then start and end of each text. */
const fieldsAt: usize = 1024;
/** Of each column the place behind its last byte. */
const cursorsAt: usize = 2048;
/** Elements of lists, three words each. */
const elementsAt: usize = 2560;
const mostElements: u32 = 64;
/** Of each plan an action for each tag, then what the action is for. */
const plansAt: usize = 4096;
const planBytes: usize = 512;
/** The first of the fields that hold ranges of text. */
const firstRange: u32 = 16;

/** Lists within lists that are read; ../message-scanner.ts says the same. */
const mostLevels = 8;

/** What is done with a field; ../plan.ts says the same, and what each means. */
const enum Action {
  none,
  fixed64,
  fixed32,
  varint,
  choice,
  text,
  id,
  attribute,
  body,
  part,
  element,
}

/** Writes a double that is no short decimal; from outside, because V8 knows the shortest digits. @returns its end. */
declare function writeDouble(at: usize, value: f64): usize;

/** Set when the message is not for us. */
let hasGivenUp = false;
/** Behind what the last function read. */
let next: usize = 0;
/** Columns that were written to. */
let written: u32 = 0;
/** Elements that were met. */
let elements: u32 = 0;
/** Position in the request minus position in memory. */
let distance: i32 = 0;

/**
 * Reads the message in `[start, end)`.
 * @returns -1 when it gave up, and what it wrote means nothing; else how many elements of lists it met.
 */
export function scan(plan: u32, start: usize, end: usize, offset: i32): i32 {
  hasGivenUp = false;
  written = 0;
  elements = 0;
  distance = offset;
  for (let at = fieldsAt; at < fieldsAt + 256; at += 16) {
    v128.store(at, i64x2.splat(0));
  }
  const origin = cursor(0);
  message(plan, start, end);
  setCursor(0, close(origin, cursor(0), 0x7b, 0x7d));
  return hasGivenUp ? -1 : <i32>elements;
}

function giveUp(): void {
  hasGivenUp = true;
}

function message(plan: u32, start: usize, end: usize): void {
  const actions = plansAt + <usize>plan * planBytes;
  let pos = start;
  while (pos < end) {
    let tag = <u32>load<u8>(pos++);
    if (tag > 0x7f) {
      // The only long tags that plans know have two bytes, the second of which is 1.
      if (load<u8>(pos++) !== 1) {
        giveUp();
        return;
      }
    }
    const index = <u32>load<u8>(actions + tag, 256);
    const action = <i32>load<u8>(actions + tag);
    switch (action) {
      case Action.none:
        giveUp();
        return;
      case Action.fixed64:
        store<u64>(fieldsAt + index * 8, load<u64>(pos));
        pos += 8;
        break;
      case Action.fixed32:
        store<u32>(fieldsAt + index * 8, load<u32>(pos));
        pos += 4;
        break;
      case Action.varint:
        store<u64>(fieldsAt + index * 8, varint(pos));
        pos = next;
        break;
      case Action.choice:
        store<u64>(fieldsAt + (index & 15) * 8, load<u64>(pos));
        store<u32>(fieldsAt + ((index & 15) + 1) * 8, index >> 4);
        pos += 8;
        break;
      default: {
        const stop = delimited(pos, end);
        payload(action, index, next, stop);
        pos = stop;
      }
    }
  }
  if (pos !== end) {
    giveUp();
  }
}

/** What a length stands before. */
@inline
function payload(action: i32, index: u32, start: usize, end: usize): void {
  switch (action) {
    case Action.text:
      begin(index, start, end);
      setCursor(index, text(start, end, cursor(index)));
      break;
    case Action.id:
      begin(index, start, end);
      setCursor(index, id(start, end, cursor(index)));
      break;
    case Action.attribute:
      setCursor(0, keyValue(start, end, cursor(0), 0));
      break;
    case Action.body:
      begin(index, start, end);
      body(index, start, end);
      break;
    case Action.part:
      message(index, start, end);
      break;
    default:
      element(index, start, end);
  }
}

function cursor(column: u32): usize {
  return load<u32>(cursorsAt + column * 4);
}

function setCursor(column: u32, at: usize): void {
  store<u32>(cursorsAt + column * 4, <u32>at);
}

/** Notes where the text of a column is; a second one is not for us. */
function begin(column: u32, start: usize, end: usize): void {
  const bit = (<u32>1) << column;
  if (written & bit) {
    giveUp();
  }
  written |= bit;
  const at = fieldsAt + (firstRange + column) * 8;
  store<i32>(at, <i32>start + distance);
  store<i32>(at, <i32>end + distance, 4);
}

/** Notes which list an element is of, and where it is. */
function element(list: u32, start: usize, end: usize): void {
  if (elements === mostElements) {
    giveUp();
    return;
  }
  const at = elementsAt + elements * 12;
  store<u32>(at, list);
  store<i32>(at, <i32>start + distance, 4);
  store<i32>(at, <i32>end + distance, 8);
  elements++;
}

/** At most 10 bytes; bits beyond 64 are dropped. */
function varint(pos: usize): u64 {
  let byte = <u64>load<u8>(pos++);
  let value = byte & 0x7f;
  for (let shift: u64 = 7; byte > 0x7f; shift += 7) {
    if (shift > 63) {
      giveUp();
      break;
    }
    byte = <u64>load<u8>(pos++);
    value |= (byte & 0x7f) << shift;
  }
  next = pos;
  return value;
}

/** Reads a length; the payload starts at `next`. @returns where it ends, at most `end`. */
@inline
function delimited(pos: usize, end: usize): usize {
  const length = <usize>load<u8>(pos);
  const stop = pos + 1 + length;
  next = pos + 1;
  return length < 0x80 && stop <= end ? stop : longDelimited(pos, end);
}

function longDelimited(pos: usize, end: usize): usize {
  const length = varint(pos);
  if (next > end || length > <u64>(end - next)) {
    giveUp();
    next = end;
    return end;
  }
  return next + <usize>length;
}

/** Copies text that is UTF-8. @returns the new cursor. */
function text(pos: usize, end: usize, at: usize): usize {
  while (pos < end) {
    const chunk = v128.load(pos);
    v128.store(at, chunk);
    const mask = i8x16.bitmask(chunk) & lanesBefore(end - pos);
    if (mask === 0) {
      const count = min<usize>(end - pos, 16);
      pos += count;
      at += count;
      continue;
    }
    const plain = <usize>ctz(mask);
    at = sequence(pos + plain, end, at + plain);
    pos = next;
  }
  return at;
}

/** A bit for each of the first `count` lanes. */
@inline
function lanesBefore(count: usize): i32 {
  return count >= 16 ? 0xffff : (1 << (<i32>count)) - 1;
}

/** Copies a sequence of UTF-8 of more than one byte (RFC 3629). */
function sequence(pos: usize, end: usize, at: usize): usize {
  const first = <u32>load<u8>(pos);
  const second = <u32>load<u8>(pos, 1);
  let length: usize = 0;
  if (first >= 0xc2 && first <= 0xf4 && isContinuation(second)) {
    if (first < 0xe0) {
      length = 2;
    } else if (isContinuation(load<u8>(pos, 2))) {
      if (first < 0xf0) {
        // Neither overlong nor a surrogate.
        length = (first === 0xe0 && second < 0xa0) || (first === 0xed && second > 0x9f) ? 0 : 3;
      } else if (isContinuation(load<u8>(pos, 3))) {
        length = (first === 0xf0 && second < 0x90) || (first === 0xf4 && second > 0x8f) ? 0 : 4;
      }
    }
  }
  if (length === 0 || length > end - pos) {
    giveUp();
    next = end;
    return at;
  }
  store<u32>(at, load<u32>(pos));
  next = pos + length;
  return at + length;
}

function isContinuation(byte: u32): bool {
  return (byte & 0xc0) === 0x80;
}

/** Writes text as a JSON string. */
@inline
function jsonString(pos: usize, end: usize, at: usize): usize {
  store<u8>(at++, 0x22);
  while (pos < end) {
    const chunk = v128.load(pos);
    v128.store(at, chunk);
    // Signed: what is not ASCII lies below the space as well.
    const special = v128.or(
      i8x16.lt_s(chunk, i8x16.splat(0x20)),
      v128.or(i8x16.eq(chunk, i8x16.splat(0x22)), i8x16.eq(chunk, i8x16.splat(0x5c))),
    );
    const mask = i8x16.bitmask(special) & lanesBefore(end - pos);
    if (mask === 0) {
      const count = min<usize>(end - pos, 16);
      pos += count;
      at += count;
      continue;
    }
    const plain = <usize>ctz(mask);
    pos += plain;
    at += plain;
    if (load<u8>(pos) > 0x7f) {
      at = sequence(pos, end, at);
      pos = next;
    } else {
      at = escape(load<u8>(pos++), at);
    }
  }
  store<u8>(at++, 0x22);
  return at;
}

/** Writes a byte that JSON wants escaped (RFC 8259). */
function escape(byte: u32, at: usize): usize {
  store<u8>(at++, 0x5c);
  switch (byte) {
    case 0x08:
      store<u8>(at++, 0x62);
      break;
    case 0x09:
      store<u8>(at++, 0x74);
      break;
    case 0x0a:
      store<u8>(at++, 0x6e);
      break;
    case 0x0c:
      store<u8>(at++, 0x66);
      break;
    case 0x0d:
      store<u8>(at++, 0x72);
      break;
    case 0x22:
    case 0x5c:
      store<u8>(at++, <u8>byte);
      break;
    default: {
      const digit = byte & 15;
      store<u32>(at, 0x00303075); // u00
      store<u8>(at, <u8>(0x30 + (byte >> 4)), 3);
      store<u8>(at, <u8>(digit < 10 ? 0x30 + digit : 0x57 + digit), 4);
      at += 5;
    }
  }
  return at;
}

/** Writes an id in hex digits, 16 at a time; nothing when all of it is zero. */
function id(pos: usize, end: usize, at: usize): usize {
  const length = end - pos;
  if (length !== 16 && length !== 8) {
    if (length !== 0) {
      giveUp();
    }
    return at;
  }
  if (load<u64>(pos) === 0 && (length === 8 || load<u64>(pos, 8) === 0)) {
    return at;
  }
  const digits = i8x16(48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 97, 98, 99, 100, 101, 102);
  for (; pos < end; pos += 8) {
    const bytes = v128.load64_zero(pos);
    const high = v128.shr<u8>(bytes, 4);
    const low = v128.and(bytes, i8x16.splat(15));
    const nibbles = i8x16.shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    v128.store(at, i8x16.swizzle(digits, nibbles));
    at += 16;
  }
  return at;
}

/** Writes a KeyValue as a comma, its key and its value. Attributes (depth 0) whose names begin with `svc.` are not for us. */
function keyValue(pos: usize, end: usize, at: usize, depth: i32): usize {
  if (pos === end || load<u8>(pos) !== 0x0a) {
    giveUp();
    return at;
  }
  const keyEnd = delimited(pos + 1, end);
  if (depth === 0 && load<u32>(next) === 0x2e637673) {
    giveUp();
  }
  store<u8>(at++, 0x2c);
  at = jsonString(next, keyEnd, at);
  store<u8>(at++, 0x3a);
  if (keyEnd === end || load<u8>(keyEnd) !== 0x12) {
    giveUp();
    return at;
  }
  if (delimited(keyEnd + 1, end) !== end) {
    giveUp();
    return at;
  }
  return anyValue(next, end, at, depth);
}

/** Writes an AnyValue that has at most one field as JSON. */
function anyValue(pos: usize, end: usize, at: usize, depth: i32): usize {
  if (pos === end) {
    store<u32>(at, 0x6c6c756e); // null
    return at + 4;
  }
  const tag = load<u8>(pos++);
  switch (tag) {
    case 0x0a:
      if (delimited(pos, end) === end) {
        return jsonString(next, end, at);
      }
      break;
    case 0x10: {
      const value = varint(pos);
      if (next === end) {
        store<u64>(at, value === 0 ? 0x65736c6166 : 0x65757274); // false, true
        return at + (value === 0 ? 5 : 4);
      }
      break;
    }
    case 0x18: {
      const value = varint(pos);
      if (next === end) {
        return integer(<i64>value, at);
      }
      break;
    }
    case 0x21:
      if (pos + 8 === end) {
        return double(load<f64>(pos), at);
      }
      break;
    case 0x2a:
    case 0x32:
      if (depth < mostLevels && delimited(pos, end) === end) {
        return members(next, end, at, tag === 0x32, depth + 1);
      }
      break;
    default:
  }
  giveUp();
  return at;
}

/** Writes an ArrayValue or a KeyValueList: each member behind a comma. */
function members(pos: usize, end: usize, at: usize, isObject: bool, depth: i32): usize {
  const origin = at;
  while (pos < end) {
    if (load<u8>(pos) !== 0x0a) {
      giveUp();
      return at;
    }
    const stop = delimited(pos + 1, end);
    if (isObject) {
      at = keyValue(next, stop, at, depth);
    } else {
      store<u8>(at++, 0x2c);
      at = anyValue(next, stop, at, depth);
    }
    pos = stop;
  }
  return isObject ? close(origin, at, 0x7b, 0x7d) : close(origin, at, 0x5b, 0x5d);
}

/** Puts brackets around members from `origin` on, each behind a comma. */
function close(origin: usize, at: usize, left: u8, right: u8): usize {
  if (at === origin) {
    at++;
  }
  store<u8>(origin, left);
  store<u8>(at, right);
  return at + 1;
}

/** Writes a body and notes its kind: the number of the field of AnyValue, 0 when it has none. */
function body(column: u32, pos: usize, end: usize): void {
  const tag = pos === end ? 0 : load<u8>(pos);
  store<u32>(fieldsAt + (firstRange + column) * 8, tag >> 3);
  if (pos === end) {
    return;
  }
  const at = cursor(column);
  if (tag === 0x0a) {
    if (delimited(pos + 1, end) !== end) {
      giveUp();
      return;
    }
    setCursor(column, text(next, end, at));
  } else {
    setCursor(column, anyValue(pos, end, at, 0));
  }
}

function integer(value: i64, at: usize): usize {
  if (value < 0) {
    store<u8>(at++, 0x2d);
    value = -value;
  }
  return unsigned(<u64>value, at);
}

function unsigned(value: u64, at: usize): usize {
  if (value >> 32) {
    // The last nine digits, behind the others.
    at = unsigned(value / 1000000000, at);
    return digits(<u32>(value % 1000000000), at, 9);
  }
  const small = <u32>value;
  let count = 1;
  for (let bound: u64 = 10; bound <= value; bound *= 10) {
    count++;
  }
  return digits(small, at, count);
}

/** Writes the last `count` digits. */
function digits(value: u32, at: usize, count: u32): usize {
  const end = at + count;
  for (let pos = end; pos > at; ) {
    const quotient = value / 10;
    store<u8>(--pos, <u8>(48 + value - quotient * 10));
    value = quotient;
  }
  return end;
}

/** As numbers.ts writes it: with a point, six decimals at most, or else from outside. */
function double(value: f64, at: usize): usize {
  const magnitude = abs(value);
  if (magnitude < 4294967296.0) {
    const micros = nearest(magnitude * 1e6);
    const whole = floor(magnitude);
    if (whole === magnitude || (magnitude < 1e9 && micros !== 0 && micros / 1e6 === magnitude)) {
      if (reinterpret<i64>(value) < 0) {
        store<u8>(at++, 0x2d);
      }
      at = unsigned(<u64>whole, at);
      store<u8>(at++, 0x2e);
      let fraction = whole === magnitude ? 0 : <u32>(micros - whole * 1e6);
      let count = 6;
      while (count > 1 && fraction % 10 === 0) {
        fraction /= 10;
        count--;
      }
      return digits(fraction, at, count);
    }
  }
  return writeDouble(at, value);
}
