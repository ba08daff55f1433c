/**
 * Resources and instrumentation scopes: read once, then found again by their bytes. Their attributes are put in the order
 * of their names: series of metrics are told apart by them, and senders may give them in another order each time.
 */
import { Utf8Column } from "../../lake/tables/columns.js";
import { appendAttribute, appendValueText, finishAttributes } from "./any-value.js";
import { appendEntityRef, finishEntityRefs } from "./entity-refs.js";
import { ByteCache } from "../rows/byte-cache.js";
import { type DecodeContext, DecodedSizeError, maxAttributesBytes } from "./decode-context.js";
import { type AudienceIdentity, namedAttributes, type ProcessIdentity, ResourceIdentity } from "../rows/identity.js";
import type { OtlpSignal } from "../../wire/otlp/rpc-status.js";
import { packValues, SharedValues } from "../rows/shared-values.js";
import { appendText } from "./text.js";

/** A scope, ready for the scope columns of any table. */
interface ScopeValues {
  /** For target, version, properties and dropped count, in the order of TableState.scopeColumns. */
  readonly values: SharedValues;
  readonly droppedAttributes: number;
  readonly badText: boolean;
}

/** Each thread knows all of a fleet of some twelve thousand processes. */
const resourceCache = { sets: 4096, bytes: 48 * 1024 * 1024 };
const scopeCache = { sets: 1024, bytes: 8 * 1024 * 1024 };
/** About what is kept of a scope beside its bytes. */
const scopeBytes = 1024;

/** Reads resources and scopes; one for the life of a worker. */
export class ResourceReader {
  readonly #context: DecodeContext;
  readonly #resources = new ByteCache<ResourceIdentity>(resourceCache.sets, resourceCache.bytes);
  readonly #scopes = new ByteCache<ScopeValues>(scopeCache.sets, scopeCache.bytes);
  readonly #json = new Utf8Column();
  /** Where the attributes in it begin. */
  #starts: number[] = [];
  readonly #entityRefs = new Utf8Column();
  readonly #text = new Utf8Column();

  constructor(context: DecodeContext) {
    this.#context = context;
  }

  /**
   * The process of a resource.
   * @param ranges starts and ends of the occurrences of the field; none is an empty resource.
   * @param depth of the Resource message.
   */
  process(identity: AudienceIdentity, signal: OtlpSignal, ranges: readonly number[], depth: number): ProcessIdentity {
    const { view } = this.#context.reader;
    if (ranges.length > 2) {
      return this.#readResource(identity, ranges, depth).of(signal);
    }
    const start = ranges[0] ?? 0;
    const end = ranges[1] ?? 0;
    const known = this.#resources.find(identity.ordinal, view, start, end);
    if (known !== undefined) {
      return known.of(signal);
    }
    const resource = this.#readResource(identity, ranges, depth);
    this.#resources.add(identity.ordinal, view, start, end, resource, resource.heldBytes);
    return resource.of(signal);
  }

  /** The values of a scope; parameters as for {@link process}. */
  scope(ranges: readonly number[], depth: number): ScopeValues {
    const { view } = this.#context.reader;
    if (ranges.length > 2) {
      return this.#readScope(ranges, depth);
    }
    const start = ranges[0] ?? 0;
    const end = ranges[1] ?? 0;
    const known = this.#scopes.find(0, view, start, end);
    if (known !== undefined) {
      return known;
    }
    const scope = this.#readScope(ranges, depth);
    this.#scopes.add(0, view, start, end, scope, scopeBytes);
    return scope;
  }

  #readResource(identity: AudienceIdentity, ranges: readonly number[], depth: number): ResourceIdentity {
    const { reader } = this.#context;
    const named = new Map<string, string>();
    const outer = this.#begin(ranges, depth);
    this.#entityRefs.reset();
    let droppedCount = 0;
    for (let range = 0; range < ranges.length; range += 2) {
      const end = ranges[range + 1]!;
      let pos = ranges[range]!;
      while (pos < end) {
        let tag = reader.bytes[pos++]!;
        if (tag > 0x7f) {
          tag = reader.longTag(pos);
          pos = reader.next;
        }
        if (tag === 0x0a) {
          const stop = reader.delimited(pos, end);
          pos = reader.next;
          this.#append(pos, stop, depth + 1);
          this.#nameAttribute(pos, stop, depth + 1, named);
          pos = stop;
        } else if (tag === 0x10) {
          reader.varint(pos);
          droppedCount = reader.low;
          pos = reader.next;
        } else if (tag === 0x1a) {
          const stop = reader.delimited(pos, end);
          appendEntityRef(this.#context, reader.next, stop, depth + 1, this.#entityRefs);
          pos = stop;
        } else {
          pos = reader.skip(tag, pos, end, depth);
        }
      }
      reader.finished(pos, end);
    }
    const { droppedAttributes, badText } = this.#end(outer);
    this.#context.charge(this.#entityRefs.byteLength);
    const facts = {
      named,
      properties: this.#json.bytes.subarray(0, this.#json.byteLength),
      droppedAttributesCount: uint32AsInt64(droppedCount),
      entityRefs: finishEntityRefs(this.#entityRefs),
    };
    return new ResourceIdentity(identity, facts, droppedAttributes, badText);
  }

  #readScope(ranges: readonly number[], depth: number): ScopeValues {
    const { reader } = this.#context;
    const outer = this.#begin(ranges, depth);
    let droppedCount = 0;
    let name: Uint8Array = new Uint8Array(0);
    let version: Uint8Array = name;
    for (let range = 0; range < ranges.length; range += 2) {
      const end = ranges[range + 1]!;
      let pos = ranges[range]!;
      while (pos < end) {
        let tag = reader.bytes[pos++]!;
        if (tag > 0x7f) {
          tag = reader.longTag(pos);
          pos = reader.next;
        }
        if (tag === 0x20) {
          reader.varint(pos);
          droppedCount = reader.low;
          pos = reader.next;
        } else if (tag === 0x0a || tag === 0x12 || tag === 0x1a) {
          const stop = reader.delimited(pos, end);
          if (tag === 0x0a) {
            name = this.#textOf(reader.next, stop);
          } else if (tag === 0x12) {
            version = this.#textOf(reader.next, stop);
          } else {
            this.#append(reader.next, stop, depth + 1);
          }
          pos = stop;
        } else {
          pos = reader.skip(tag, pos, end, depth);
        }
      }
      reader.finished(pos, end);
    }
    const { droppedAttributes, badText } = this.#end(outer);
    const values = packValues([
      name,
      version.length === 0 ? null : version,
      this.#json.bytes.subarray(0, this.#json.byteLength),
      uint32AsInt64(droppedCount),
    ]);
    return { values: new SharedValues(values), droppedAttributes, badText };
  }

  /** Starts to count dropped attributes and bad text apart from the record's. */
  #begin(ranges: readonly number[], depth: number): number {
    const bytes = ranges.reduce((sum, at, i) => sum + (i % 2 === 0 ? -at : at), 0);
    if (bytes > maxAttributesBytes) {
      const most = maxAttributesBytes;
      throw new DecodedSizeError(`a resource or a scope has more than ${most} bytes; give it fewer attributes`);
    }
    this.#context.reader.enter(depth);
    this.#json.reset();
    this.#starts = [];
    this.#context.badText = false;
    return this.#context.droppedAttributes;
  }

  #append(start: number, end: number, depth: number): void {
    const before = this.#json.byteLength;
    appendAttribute(this.#context, start, end, depth, this.#json);
    if (this.#json.byteLength > before) {
      this.#starts.push(before);
    }
  }

  #end(outer: number): { droppedAttributes: number; badText: boolean } {
    sortAttributes(this.#json, this.#starts);
    finishAttributes(this.#json);
    const context = this.#context;
    // Escaped, it may be six times as long as it was sent.
    context.charge(this.#json.byteLength);
    const result = {
      droppedAttributes: context.droppedAttributes - outer,
      badText: context.badText,
    };
    context.droppedAttributes = outer;
    context.badText = false;
    return result;
  }

  #textOf(start: number, end: number): Uint8Array {
    this.#text.reset();
    if (!appendText(this.#context.reader, start, end, this.#text)) {
      this.#context.badText = true;
    }
    return this.#text.bytes.slice(0, this.#text.byteLength);
  }

  /** Keeps the value of an attribute that is wanted by name; of several the last. */
  #nameAttribute(start: number, end: number, depth: number, named: Map<string, string>): void {
    const { reader } = this.#context;
    const values: number[] = [];
    let key = "";
    for (let pos = start; pos < end;) {
      let tag = reader.bytes[pos++]!;
      if (tag > 0x7f) {
        tag = reader.longTag(pos);
        pos = reader.next;
      }
      if (tag !== 0x0a && tag !== 0x12) {
        pos = reader.skip(tag, pos, end, depth);
        continue;
      }
      const stop = reader.delimited(pos, end);
      if (tag === 0x12) {
        values.push(reader.next, stop);
      } else {
        key = Buffer.from(reader.bytes.subarray(reader.next, stop)).toString("latin1");
      }
      pos = stop;
    }
    if (!namedAttributes.has(key)) {
      return;
    }
    this.#text.reset();
    appendValueText(this.#context, values, depth + 1, this.#text);
    named.set(key, Buffer.from(this.#text.bytes.subarray(0, this.#text.byteLength)).toString());
  }
}

const quote = 0x22;
const colon = 0x3a;

/**
 * Which of two attributes, each `,"name":value`, comes first by the bytes of its name: below zero for the one at `a`. Where
 * thousands of processes send in turn it runs for each request, so it copies nothing.
 */
function compareNames(bytes: Uint8Array, a: number, b: number): number {
  for (let at = 2; ; at++) {
    const x = bytes[a + at]!;
    const y = bytes[b + at]!;
    const isEndOfA = x === quote && bytes[a + at + 1] === colon;
    const isEndOfB = y === quote && bytes[b + at + 1] === colon;
    if (isEndOfA || isEndOfB) {
      return Number(isEndOfB) - Number(isEndOfA);
    }
    if (x !== y) {
      return x - y;
    }
  }
}

/** Puts the attributes of the unfinished value in the order of their names; equal ones stay as sent. */
function sortAttributes(json: Utf8Column, starts: readonly number[]): void {
  const { bytes, byteLength } = json;
  if (starts.every((start, i) => i === 0 || compareNames(bytes, starts[i - 1]!, start) <= 0)) {
    return;
  }
  const order = starts.map((_, i) => i).toSorted((a, b) => compareNames(bytes, starts[a]!, starts[b]!));
  const sent = bytes.slice(0, byteLength);
  let to = starts[0]!;
  for (const index of order) {
    const end = starts[index + 1] ?? byteLength;
    for (let from = starts[index]!; from < end; from++) {
      bytes[to++] = sent[from]!;
    }
  }
}

/** 8 bytes little-endian of a count that was sent as uint32: the form of run_int64 dictionaries. */
function uint32AsInt64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}
