/** What a client that speaks HTTP/2 is told where HTTP/1.1 is spoken, in HTTP/2's own words (RFC 9113). */

const frameHeadBytes = 9;
const settingsType = 4;
const goawayType = 7;
const http11Required = 0xd;

/** A server's first frame, and a GOAWAY whose debug data is a sentence: gRPC libraries show it. */
export function http2Refusal(sentence: string): Uint8Array {
  const text = Buffer.from(sentence);
  const goaway = Buffer.alloc(8 + text.length);
  // No stream was served.
  goaway.writeUInt32BE(0, 0);
  goaway.writeUInt32BE(http11Required, 4);
  goaway.set(text, 8);
  return Buffer.concat([frame(settingsType, Buffer.alloc(0)), frame(goawayType, goaway)]);
}

/** A frame without flags, of the connection. */
function frame(type: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  return Buffer.concat([head, payload]);
}
