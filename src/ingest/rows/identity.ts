/**
 * Who sent a block: process, stream and block ids, all UUIDv5.
 *
 *   root namespace -> namespace of the write audience -> process namespace, block namespace
 *   process_id = v5(process namespace, identifying resource attributes, as a JSON array of pairs)
 *   stream_id  = v5(process_id, name of the signal)
 *   block_id   = v5(block namespace, one byte of signal, the bytes of the ResourceLogs/-Metrics/-Spans)
 *
 * So two audiences never share a process or a block, and equal bytes give equal ids on every server.
 */
import type { ProcessRow } from "../../lake/catalogue-rows.js";
import { processRow } from "../../lake/process-row.js";
import type { OtlpSignal } from "../../wire/otlp/rpc-status.js";
import type { ProtobufReader } from "../../wire/protobuf-reader.js";
import { type PackedValues, packValues, SharedValues } from "./shared-values.js";
import { parseUuid, uuidBytes, uuidV5, uuidV5OfText } from "./uuid.js";

/** Never to change: every id hangs from it. */
const rootNamespace = parseUuid("6f0d1c6e-8a51-5e0b-9c1f-2f3f5b1f7a10");

const signalNames = { 1: "logs", 2: "metrics", 3: "traces" } as const;
const signals = [1, 2, 3] as const satisfies readonly OtlpSignal[];

/** The resource attributes that tell processes apart, in the order in which they are hashed. */
const identifyingAttributes = [
  "service.namespace",
  "service.name",
  "service.instance.id",
  "service.version",
  "host.id",
  "host.name",
  "process.pid",
  "process.creation.time",
  "telemetry.sdk.name",
  "telemetry.sdk.language",
  "telemetry.sdk.version",
  "process.runtime.name",
  "process.runtime.version",
] as const;

/** Resource attributes whose values are wanted by name: the identifying ones and two for display. */
export const namedAttributes: ReadonlySet<string> = new Set([
  ...identifyingAttributes,
  "process.executable.name",
  "process.executable.path",
  "process.owner",
]);

/** Namespaces of one write audience. */
export interface AudienceIdentity {
  readonly audience: string | null;
  /** Small number of the audience in caches of one worker. */
  readonly ordinal: number;
  readonly processNamespace: Uint8Array;
  readonly blockNamespace: Uint8Array;
}

/** Derives the namespaces of an audience; null is the unstamped one and collides with no name. */
export function createAudienceIdentity(audience: string | null, ordinal: number): AudienceIdentity {
  const name = audience === null ? "unstamped" : `audience:${audience}`;
  const own = parseUuid(uuidV5OfText(rootNamespace, name));
  return {
    audience,
    ordinal,
    processNamespace: parseUuid(uuidV5OfText(own, "process")),
    blockNamespace: parseUuid(uuidV5OfText(own, "block")),
  };
}

/** What a resource says, before it belongs to an audience. */
interface ResourceFacts {
  /** Texts of the {@link namedAttributes} that it holds. */
  readonly named: ReadonlyMap<string, string>;
  /** All attributes as a JSON object, UTF-8; of memory that is used again. */
  readonly properties: Uint8Array;
  /** dropped_attributes_count as sent, 8 bytes little-endian. */
  readonly droppedAttributesCount: Uint8Array;
  /** JSON, UTF-8; see entity-refs.ts. */
  readonly entityRefs: Uint8Array | null;
}

/** A resource under an audience and a signal, with everything derived from it. */
export interface ProcessIdentity {
  readonly row: ProcessRow;
  readonly audience: string | null;
  /** Reserved attributes that were dropped from the resource. */
  readonly droppedAttributes: number;
  /** Some string of the resource is not UTF-8: nothing below it is stored. */
  readonly badText: boolean;
  readonly signal: OtlpSignal;
  readonly streamId: string;
  /** For the process columns of a table, in the order of TableState.processColumns. */
  readonly values: SharedValues;
}

/** Objects, and texts that are short. */
const overheadBytes = 2560;
const roomForId = new Uint8Array(36);

/**
 * A resource under an audience: a process sends several signals. Thousands are kept, so it holds what rows need and
 * nothing that it was read from.
 */
export class ResourceIdentity {
  /** About how much memory it takes. */
  readonly heldBytes: number;
  readonly #process: Pick<ProcessIdentity, "row" | "audience" | "droppedAttributes" | "badText">;
  /** The process id, room for the stream id of each signal in the order of their numbers, and what others there are. */
  readonly #values: PackedValues;
  readonly #bySignal: Partial<Record<OtlpSignal, ProcessIdentity>> = {};

  /** Derives process id and catalogue row. */
  constructor(identity: AudienceIdentity, facts: ResourceFacts, droppedAttributes: number, badText: boolean) {
    const { audience, processNamespace } = identity;
    const { named } = facts;
    const pairs = identifyingAttributes.flatMap((key) => {
      const value = named.get(key);
      return value === undefined ? [] : [[key, value]];
    });
    const row = rowOf(uuidV5OfText(processNamespace, JSON.stringify(pairs)), audience, facts);
    this.#process = { row, audience, droppedAttributes, badText };
    this.#values = packValues([
      row.processId,
      ...signals.map(() => roomForId),
      named.get("service.namespace") ?? null,
      named.get("service.name") ?? null,
      named.get("service.instance.id") ?? null,
      named.get("service.version") ?? null,
      named.get("host.name") ?? null,
      facts.properties,
      facts.droppedAttributesCount,
      facts.entityRefs,
    ]);
    this.heldBytes = overheadBytes + this.#values.bytes.length + row.columns.length;
  }

  /** Its process under a signal. */
  of(signal: OtlpSignal): ProcessIdentity {
    return (this.#bySignal[signal] ??= this.#identify(signal));
  }

  #identify(signal: OtlpSignal): ProcessIdentity {
    const { bytes, ranges } = this.#values;
    const streamId = uuidV5OfText(parseUuid(this.#process.row.processId), signalNames[signal]);
    const id = ranges.slice(2 * signal, 2 * signal + 2);
    writeId(bytes, id[0] ?? 0, streamId);
    const own = [...ranges.slice(0, 2), ...id, ...ranges.slice(2 + 2 * signals.length)];
    return { ...this.#process, signal, streamId, values: new SharedValues({ bytes, ranges: own }) };
  }
}

function writeId(bytes: Uint8Array, at: number, id: string): void {
  for (let index = 0; index < id.length; index++) {
    bytes[at + index] = id.charCodeAt(index);
  }
}

/** `Date.parse` reads much else, such as `garbage 5`, and in the zone of this machine. */
const isoTime = /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)([Zz]|[+-]\d\d:?\d\d)?)?$/u;

/** Milliseconds since the epoch of an ISO 8601 time, in UTC if it names no zone; else null. */
function parseTime(text = ""): number | null {
  const [, day = "", time = "00:00", zone = "Z"] = isoTime.exec(text) ?? [];
  const timeMs = Date.parse(`${day}T${time}${zone}`);
  return Number.isNaN(timeMs) ? null : timeMs;
}

function rowOf(processId: string, audience: string | null, facts: ResourceFacts): ProcessRow {
  const { named } = facts;
  const text = (key: string): string | null => named.get(key) ?? null;
  const pid = named.get("process.pid") ?? "";
  return processRow({
    processId,
    audience,
    serviceNamespace: text("service.namespace"),
    serviceName: text("service.name"),
    serviceInstanceId: text("service.instance.id"),
    serviceVersion: text("service.version"),
    hostId: text("host.id"),
    hostName: text("host.name"),
    processPid: /^\d{1,15}$/u.test(pid) ? Number(pid) : null,
    executable: text("process.executable.name") ?? text("process.executable.path"),
    username: text("process.owner"),
    sdkName: text("telemetry.sdk.name"),
    sdkLanguage: text("telemetry.sdk.language"),
    sdkVersion: text("telemetry.sdk.version"),
    startTimeMs: parseTime(named.get("process.creation.time")),
    properties: Buffer.from(facts.properties).toString(),
  });
}

const nameBytes = uuidBytes + 1;
const savedBytes = new Uint8Array(nameBytes);

/**
 * Id of the block in `[start, end)` of the input. Namespace and signal are laid over the bytes in front
 * of it while it is hashed (there is room: the input has headroom), so that nothing is copied.
 */
export function blockIdOf(
  reader: ProtobufReader,
  identity: AudienceIdentity,
  signal: OtlpSignal,
  start: number,
  end: number,
): string {
  const { bytes } = reader;
  const { blockNamespace } = identity;
  const from = start - nameBytes;
  // Loops: for so few bytes they cost a tenth of set(subarray).
  for (let index = 0; index < nameBytes; index++) {
    savedBytes[index] = bytes[from + index]!;
    bytes[from + index] = index < uuidBytes ? blockNamespace[index]! : signal;
  }
  const id = uuidV5(bytes.subarray(from, end));
  for (let index = 0; index < nameBytes; index++) {
    bytes[from + index] = savedBytes[index]!;
  }
  return id;
}
