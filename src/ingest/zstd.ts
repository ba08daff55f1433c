import { MalformedError } from "../wire/protobuf-reader.js";
export function decompressZstd(
  _input: Uint8Array,
  _limit: number,
  _tooLarge: () => Error,
): Uint8Array[] {
  throw new MalformedError("zstd is not supported yet");
}
