/**
 * A FlatBuffers writer for Arrow IPC metadata (Arrow columnar format, "Encapsulated message format";
 * FlatBuffers internals). Like every such writer it fills its buffer from the end: what is written first
 * lies last, and offsets count from the end of the buffer.
 */
export class FlatBufferWriter {
  #bytes = new Uint8Array(1024);
  #view = new DataView(this.#bytes.buffer);
  /** Bytes written, counted from the end of the buffer. */
  #used = 0;
  #largestAlignment = 1;
  /** Field number and offset of each field of the table under construction. */
  #fields: { readonly slot: number; readonly offset: number }[] = [];
  #tableStart = 0;

  /** Writes a string and returns its offset. Not while a table is open. */
  string(text: string): number {
    const utf8 = new TextEncoder().encode(text);
    this.#align(4, utf8.length + 1 + 4);
    this.#reserve(utf8.length + 1);
    this.#bytes.set(utf8, this.#bytes.length - this.#used);
    this.#bytes[this.#bytes.length - this.#used + utf8.length] = 0;
    return this.#length(utf8.length);
  }

  /** Writes a vector of offsets to tables or strings and returns its offset. */
  offsetVector(offsets: readonly number[]): number {
    this.#align(4, offsets.length * 4 + 4);
    for (let i = offsets.length - 1; i >= 0; i--) {
      this.#reserve(4);
      this.#view.setUint32(this.#at(), this.#used - (offsets[i] ?? 0), true);
    }
    return this.#length(offsets.length);
  }

  /** Writes a vector of signed 32-bit numbers and returns its offset. */
  int32Vector(values: readonly number[]): number {
    this.#align(4, values.length * 4 + 4);
    for (let i = values.length - 1; i >= 0; i--) {
      this.#reserve(4);
      this.#view.setInt32(this.#at(), values[i] ?? 0, true);
    }
    return this.#length(values.length);
  }

  /** Writes a vector of structs that consist of signed 64-bit words and returns its offset. */
  int64StructVector(words: readonly number[], wordsPerStruct: number): number {
    this.#align(8, words.length * 8);
    for (let i = words.length - 1; i >= 0; i--) {
      this.#reserve(8);
      this.#view.setBigInt64(this.#at(), BigInt(words[i] ?? 0), true);
    }
    this.#align(4, 4);
    return this.#length(words.length / wordsPerStruct);
  }

  /** Opens a table. Everything that its fields point to must have been written before. */
  startTable(): void {
    this.#fields = [];
    this.#tableStart = this.#used;
  }

  fieldInt8(slot: number, value: number): void {
    this.#align(1, 1);
    this.#reserve(1);
    this.#view.setInt8(this.#at(), value);
    this.#fields.push({ slot, offset: this.#used });
  }

  fieldInt16(slot: number, value: number): void {
    this.#align(2, 2);
    this.#reserve(2);
    this.#view.setInt16(this.#at(), value, true);
    this.#fields.push({ slot, offset: this.#used });
  }

  fieldInt32(slot: number, value: number): void {
    this.#align(4, 4);
    this.#reserve(4);
    this.#view.setInt32(this.#at(), value, true);
    this.#fields.push({ slot, offset: this.#used });
  }

  fieldInt64(slot: number, value: number): void {
    this.#align(8, 8);
    this.#reserve(8);
    this.#view.setBigInt64(this.#at(), BigInt(value), true);
    this.#fields.push({ slot, offset: this.#used });
  }

  /** A field that points to a string, vector or table. */
  fieldOffset(slot: number, offset: number): void {
    this.#align(4, 4);
    this.#reserve(4);
    this.#view.setUint32(this.#at(), this.#used - offset, true);
    this.#fields.push({ slot, offset: this.#used });
  }

  /** Closes the table and returns its offset. */
  endTable(): number {
    this.#align(4, 4);
    this.#reserve(4);
    const table = this.#used;
    const slots = this.#fields.reduce((most, { slot }) => Math.max(most, slot + 1), 0);
    const objectBytes = table - this.#tableStart;
    this.#align(2, slots * 2 + 4);
    this.#reserve(slots * 2 + 4);
    const vtable = this.#at();
    this.#bytes.fill(0, vtable, vtable + slots * 2 + 4);
    this.#view.setUint16(vtable, slots * 2 + 4, true);
    this.#view.setUint16(vtable + 2, objectBytes, true);
    for (const { slot, offset } of this.#fields) {
      this.#view.setUint16(vtable + 4 + slot * 2, table - offset, true);
    }
    this.#view.setInt32(this.#bytes.length - table, this.#used - table, true);
    return table;
  }

  /** Writes the root offset and returns the finished buffer, padded in front to a multiple of 8 bytes. */
  finish(root: number): Uint8Array<ArrayBuffer> {
    this.#align(Math.max(8, this.#largestAlignment), 4);
    this.#reserve(4);
    this.#view.setUint32(this.#at(), this.#used - root, true);
    return this.#bytes.slice(this.#bytes.length - this.#used);
  }

  #at(): number {
    return this.#bytes.length - this.#used;
  }

  #length(count: number): number {
    this.#reserve(4);
    this.#view.setUint32(this.#at(), count, true);
    return this.#used;
  }

  /** Pads so that after `upcoming` more bytes the position is a multiple of `size`. */
  #align(size: number, upcoming: number): void {
    this.#largestAlignment = Math.max(this.#largestAlignment, size);
    const padding = -(this.#used + upcoming) & (size - 1);
    this.#reserve(padding);
    const at = this.#at();
    this.#bytes.fill(0, at, at + padding);
  }

  #reserve(bytes: number): void {
    while (this.#used + bytes > this.#bytes.length) {
      const grown = new Uint8Array(this.#bytes.length * 2);
      grown.set(this.#bytes, this.#bytes.length);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    this.#used += bytes;
  }
}
