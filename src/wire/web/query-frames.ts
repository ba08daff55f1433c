/**
 * The answer to `POST /api/query`: a sequence of frames, each one byte of kind, four bytes of length (little endian)
 * and as many bytes of payload.
 *
 * S, B: a message of an Arrow IPC stream, encapsulated and padded (Arrow columnar format, "Encapsulated message
 * format"): first the schema, then record batches, and before one the dictionaries that it refers to. Their payloads one
 * after another are such a stream. P, D, E: JSON. Every answer ends with D or E, so one that broke off is told from a
 * short one.
 */

/** Media type of the frames. */
export const framesType = "application/vnd.telemetry.frames";
/** Media type of an Arrow IPC stream. */
export const arrowStreamType = "application/vnd.apache.arrow.stream";

/** How far a query is. */
interface QueryProgress {
  /** Rows and bytes of Arrow messages that were sent so far, without what frames them. */
  readonly rows: number;
  readonly bytes: number;
  readonly milliseconds: number;
  /** Objects of the lake that it reads; null until that is known. */
  readonly objects: number | null;
}

/** How a query ended that did not fail. */
interface QueryDone extends QueryProgress {
  /** The result has more rows than these. */
  readonly cut: boolean;
}

/** How a query failed. */
interface QueryFailure {
  readonly code: string;
  readonly message: string;
  readonly request_id: string;
}

/** Kind and length of a frame. */
const headBytes = 5;
/** Continuation marker and length of the header. */
const prefixBytes = 8;
/** A body up to this size is copied behind its header: a write of its own would cost more. */
const copiedBytes = 16 * 1024;

/**
 * A frame with an Arrow message, in pieces; a large body is passed on, not copied.
 * @param header flatbuffer `Message`
 */
export function messageFrame(kind: "S" | "B", header: Uint8Array, body: Uint8Array): Uint8Array[] {
  const front = Buffer.alloc(headBytes + prefixBytes + padded(header.length));
  writeHead(front, kind, front.length - headBytes + padded(body.length));
  writeHeader(front, headBytes, header);
  return withBody(front, body);
}

/** An Arrow message as it stands in an IPC stream, in pieces. */
export function encapsulated(header: Uint8Array, body: Uint8Array): Uint8Array[] {
  const front = Buffer.alloc(prefixBytes + padded(header.length));
  writeHeader(front, 0, header);
  return withBody(front, body);
}

/** What ends an Arrow IPC stream. */
export const endOfStream: Uint8Array = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0);

/** A frame with JSON. */
export function jsonFrame(kind: "P", value: QueryProgress): Uint8Array;
export function jsonFrame(kind: "D", value: QueryDone): Uint8Array;
export function jsonFrame(kind: "E", value: QueryFailure): Uint8Array;
export function jsonFrame(kind: "P" | "D" | "E", value: QueryProgress | QueryFailure): Uint8Array {
  const payload = Buffer.from(JSON.stringify(value));
  const head = Buffer.alloc(headBytes);
  writeHead(head, kind, payload.length);
  return Buffer.concat([head, payload]);
}

function writeHead(to: Buffer, kind: string, payloadBytes: number): void {
  to.write(kind, "latin1");
  to.writeUInt32LE(payloadBytes, 1);
}

function writeHeader(to: Buffer, at: number, header: Uint8Array): void {
  to.writeUInt32LE(0xffff_ffff, at);
  to.writeUInt32LE(padded(header.length), at + 4);
  to.set(header, at + prefixBytes);
}

function withBody(front: Buffer, body: Uint8Array): Uint8Array[] {
  const padding = padded(body.length) - body.length;
  const pieces = [front, body, ...(padding === 0 ? [] : [new Uint8Array(padding)])];
  return body.length <= copiedBytes ? [Buffer.concat(pieces)] : pieces;
}

/** Messages and their headers are padded to 8 bytes. */
function padded(bytes: number): number {
  return Math.ceil(bytes / 8) * 8;
}
