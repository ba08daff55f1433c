/** Bodies of answers, read whole up to a bound. */

/**
 * Bytes are counted as they arrive, after decompression; a longer body is not read to its end.
 * @param what it is, for the error
 */
export async function readBounded(response: Response, maxBytes: number, what: string): Promise<Buffer<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    const part = chunk as Uint8Array;
    bytes += part.length;
    if (bytes > maxBytes) {
      throw new Error(`the ${what} is too large`);
    }
    chunks.push(part);
  }
  return Buffer.concat(chunks);
}
