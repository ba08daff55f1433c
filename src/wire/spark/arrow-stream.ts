/** Arrow IPC streams (Arrow columnar format, "IPC Streaming Format") taken apart into their messages, not copied. */
import { FlatBuffer } from "../flight/flight-arrow-read.js";

/** One message of a stream. */
interface StreamMessage {
  /** The FlatBuffer, without continuation marker and length. */
  readonly header: Uint8Array;
  readonly body: Uint8Array;
  /** Message.fbs MessageHeader. */
  readonly kind: "schema" | "dictionary" | "batch";
  /** Of a batch. */
  readonly rows: number;
}

const kinds = ["", "schema", "dictionary", "batch"] as const;

/**
 * The messages of a whole stream.
 * @throws RangeError, ServiceError BAD_REQUEST for what is none
 */
export function* messagesOfStream(bytes: Uint8Array): Generator<StreamMessage> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length;) {
    if (view.getUint32(at, true) !== 0xffffffff) {
      throw new RangeError("an Arrow stream lacks its marker");
    }
    const length = view.getUint32(at + 4, true);
    at += 8;
    if (length === 0) {
      return;
    }
    const header = bytes.subarray(at, at + length);
    const message = new FlatBuffer(header);
    const root = message.root();
    const bodyBytes = message.int64(root, 3);
    const from = at + length;
    at = from + bodyBytes;
    const kind = kinds[message.uint8(root, 1)] ?? "";
    if (header.length !== length || at > bytes.length || kind === "") {
      throw new RangeError("an Arrow stream is cut short, or has a message that is not known");
    }
    const rows = kind === "batch" ? message.int64(message.table(root, 2), 0) : 0;
    yield { header, body: bytes.subarray(from, at), kind, rows };
  }
}
