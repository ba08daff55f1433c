/** An Arrow IPC stream as its messages (Arrow columnar format, "Encapsulated message format"). */

interface ArrowMessage {
  /** Message.fbs Message. */
  readonly header: Uint8Array;
  readonly body: Uint8Array;
}

/** The messages of a stream, up to its end marker. */
export function arrowMessages(ipc: Uint8Array): ArrowMessage[] {
  const view = new DataView(ipc.buffer, ipc.byteOffset, ipc.byteLength);
  const messages: ArrowMessage[] = [];
  let at = 0;
  while (at + 8 <= ipc.length && view.getUint32(at + 4, true) > 0) {
    const header = ipc.slice(at + 8, at + 8 + view.getUint32(at + 4, true));
    at += 8 + header.length;
    const body = ipc.slice(at, at + bodyLength(header));
    at += body.length;
    messages.push({ header, body });
  }
  return messages;
}

/** Message.fbs bodyLength. */
function bodyLength(header: Uint8Array): number {
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
  const table = view.getUint32(0, true);
  const vtable = table - view.getInt32(table, true);
  const offset = view.getUint16(vtable, true) > 10 ? view.getUint16(vtable + 10, true) : 0;
  return offset === 0 ? 0 : Number(view.getBigInt64(table + offset, true));
}
