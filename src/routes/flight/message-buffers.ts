/**
 * Large messages of results on their way out: copied once, into memory that is used again. grpc-js copies each message
 * into fresh memory behind its prefix; fresh memory means page faults, and collections of what nobody needs any more:
 * together 0.3 s of processor time for each gigabyte.
 */

/**
 * A message with gRPC's prefix in front ("Length-Prefixed-Message"). The patched grpc-js sends it as it is, and calls
 * `sent` when the whole of it has left: never for a stream that was cancelled, parts of which may still be under way.
 */
export type FramedMessage = Buffer & { readonly framed: true; sent(): void };

const prefixBytes = 5;
/** For smaller messages nothing is gained; larger ones are rare. */
const leastBytes = 64 << 10;
const mostBytes = 2 << 20;
/** So many stay for the next messages. */
const mostKept = 8;

/** The buffers of a server. */
export class MessageBuffers {
  readonly #kept: ArrayBuffer[] = [];

  /**
   * The message, framed in memory of this object's where that pays, else as it is. It may be changed afterwards when it
   * is framed.
   */
  framed(message: Buffer): Buffer | FramedMessage {
    if (message.length < leastBytes || message.length > mostBytes) {
      return message;
    }
    const memory = this.#kept.pop() ?? Buffer.allocUnsafeSlow(prefixBytes + mostBytes).buffer;
    const framed = Buffer.from(memory, 0, prefixBytes + message.length);
    framed[0] = 0; // not compressed
    framed.writeUInt32BE(message.length, 1);
    message.copy(framed, prefixBytes);
    const sent = (): void => {
      if (this.#kept.length < mostKept) {
        this.#kept.push(memory);
      }
    };
    return Object.assign(framed, { framed: true, sent } as const);
  }
}
