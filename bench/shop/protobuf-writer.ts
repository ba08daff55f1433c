/** Writes protobuf into one buffer that grows. Lengths of nested messages take four bytes, so nothing is moved. */
export class ProtobufWriter {
  #bytes: Buffer;
  #at = 0;

  constructor(size = 1024) {
    this.#bytes = Buffer.allocUnsafe(size);
  }

  /** Begins a nested message; `end` takes what it returns. */
  begin(field: number): number {
    this.#room(16);
    this.#number(field * 8 + 2);
    this.#at += 4;
    return this.#at;
  }

  end(begun: number): void {
    const bytes = this.#bytes;
    const length = this.#at - begun;
    bytes[begun - 4] = (length & 127) | 128;
    bytes[begun - 3] = ((length >>> 7) & 127) | 128;
    bytes[begun - 2] = ((length >>> 14) & 127) | 128;
    bytes[begun - 1] = length >>> 21;
  }

  varint(field: number, value: number): void {
    this.#room(20);
    this.#number(field * 8);
    this.#number(value);
  }

  fixed64(field: number, high: number, low: number): void {
    this.#room(16);
    this.#number(field * 8 + 1);
    this.#at = this.#bytes.writeUInt32LE(low, this.#at);
    this.#at = this.#bytes.writeUInt32LE(high, this.#at);
  }

  double(field: number, value: number): void {
    this.#room(16);
    this.#number(field * 8 + 1);
    this.#at = this.#bytes.writeDoubleLE(value, this.#at);
  }

  /** ASCII. */
  string(field: number, value: string): void {
    this.#room(value.length + 16);
    this.#number(field * 8 + 2);
    this.#number(value.length);
    this.#at += this.#bytes.write(value, this.#at, "latin1");
  }

  /** Eight bytes of an id. */
  id8(field: number, high: number, low: number): void {
    this.#room(16);
    this.#number(field * 8 + 2);
    this.#number(8);
    this.#at = this.#bytes.writeUInt32BE(high, this.#at);
    this.#at = this.#bytes.writeUInt32BE(low, this.#at);
  }

  /** Sixteen bytes of an id. */
  id16(field: number, a: number, b: number, c: number, d: number): void {
    this.#room(24);
    this.#number(field * 8 + 2);
    this.#number(16);
    for (const part of [a, b, c, d]) {
      this.#at = this.#bytes.writeUInt32BE(part, this.#at);
    }
  }

  /** Fields that are written already. */
  raw(bytes: Buffer): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** A copy of what was written; the writer is empty again. */
  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#at));
    this.#at = 0;
    return taken;
  }

  #number(value: number): void {
    let rest = value;
    while (rest >= 128) {
      this.#bytes[this.#at++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#at++] = rest;
  }

  #room(bytes: number): void {
    if (this.#at + bytes > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#at + bytes));
      larger.set(this.#bytes.subarray(0, this.#at));
      this.#bytes = larger;
    }
  }
}
