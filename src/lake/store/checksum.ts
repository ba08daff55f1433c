/** Checksums of objects: CRC-32, which object stores keep as well. */
import { createReadStream } from "node:fs";
import { crc32 } from "node:zlib";

/** Of bytes in order. */
export function checksumOf(chunks: Iterable<Uint8Array>): number {
  let sum = 0;
  for (const chunk of chunks) {
    sum = crc32(chunk, sum);
  }
  return sum;
}

/** Of a file. @throws the file system's errors */
export async function checksumOfFile(file: string): Promise<number> {
  let sum = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) {
    sum = crc32(chunk as Uint8Array, sum);
  }
  return sum;
}
