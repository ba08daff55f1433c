/** Checksums of objects: CRC-32, which object stores keep as well. */
import { type FileHandle, open } from "node:fs/promises";
import { crc32 } from "node:zlib";

import { abortReason } from "../../runtime/errors.js";

const readBytes = 1 << 20;

/** Of bytes in order. */
export function checksumOf(chunks: Iterable<Uint8Array>): number {
  let sum = 0;
  for (const chunk of chunks) {
    sum = crc32(chunk, sum);
  }
  return sum;
}

/** Of a whole file, holes included. @throws the file system's errors; what `signal` was aborted with */
export async function checksumOfHandle(handle: FileHandle, signal?: AbortSignal): Promise<number> {
  const buffer = Buffer.allocUnsafe(readBytes);
  let sum = 0;
  for (let at = 0; ;) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, at);
    if (bytesRead === 0) {
      return sum;
    }
    if (signal?.aborted === true) {
      throw abortReason(signal);
    }
    sum = crc32(buffer.subarray(0, bytesRead), sum);
    at += bytesRead;
  }
}

/** Of a file. @throws the file system's errors */
export async function checksumOfFile(file: string): Promise<number> {
  const handle = await open(file);
  try {
    return await checksumOfHandle(handle);
  } finally {
    await handle.close();
  }
}
