/** FlightData messages taken apart, for readers of Arrow IPC streams. */

/** A FlightData message as a message of an Arrow IPC stream. */
export function ipcOf(message: Uint8Array): Uint8Array[] {
  const { header, body } = splitFlightData(message);
  const padded = (header.length + 7) & ~7;
  const start = new Uint8Array(8 + padded);
  new DataView(start.buffer).setUint32(0, 0xffffffff, true);
  new DataView(start.buffer).setUint32(4, padded, true);
  start.set(header, 8);
  return [start, body.slice()];
}

/** Header (field 2) and body (field 1000) of a FlightData message. */
export function splitFlightData(message: Uint8Array): { header: Uint8Array; body: Uint8Array } {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = message[at++] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) {
        return value;
      }
    }
  };
  let header = new Uint8Array(0);
  let body = new Uint8Array(0);
  while (at < message.length) {
    const tag = varint();
    const length = varint();
    const bytes = message.slice(at, at + length);
    at += length;
    if (tag >> 3 === 2) {
      header = bytes;
    } else if (tag >> 3 === 1000) {
      body = bytes;
    }
  }
  return { header, body };
}
