/** Frames of HTTP/2 (RFC 9113) made by hand, for connections that no library would make. */

/** Types of frames. */
export const frameType = { data: 0, headers: 1, reset: 3, settings: 4, goaway: 7 } as const;

/** END_HEADERS, and that with END_STREAM. */
export const endHeaders = 4;
export const endStreamAndHeaders = 5;

/** One frame. */
export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A field that is not to be indexed: the name of an entry of the static table, and a value below 127 bytes. */
function literal(index: number, value: string): Buffer {
  const name = index < 15 ? [index] : [15, index - 15];
  return Buffer.concat([Buffer.from([...name, value.length]), Buffer.from(value)]);
}

/** What begins a connection of HTTP/2: the client's preface and its settings. */
export function opening(): Buffer {
  return Buffer.concat([
    Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    frame(frameType.settings, 0, 0, Buffer.alloc(0)),
  ]);
}

/** The fields of a call, of names and values below 127 bytes. */
export function callHead(path: string, authorization: string | null = null): Buffer {
  return Buffer.concat([
    // :method POST and :scheme http of the static table, then names of it with values (RFC 7541).
    Buffer.from([0x83, 0x86]),
    literal(4, path),
    literal(1, "localhost"),
    literal(31, "application/grpc"),
    ...(authorization === null ? [] : [literal(23, authorization)]),
  ]);
}
