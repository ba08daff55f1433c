/** The head of a zstd frame (RFC 8878, section 3.1.1.1), behind its magic number. */
export const frameMagic = 0xfd2fb528;
/** The longest head, with the magic number. */
export const mostHeadBytes = 18;

interface FrameHead {
  readonly hasReservedBit: boolean;
  readonly hasChecksum: boolean;
  /** Where the id of a dictionary is, which ends at `sizeAt`. */
  readonly dictionaryAt: number;
  readonly sizeAt: number;
  /** Where the blocks begin. */
  readonly end: number;
  /** Bytes of the content; -1: it does not say. */
  readonly size: number;
}

/** Reads it from `start`. Where it goes beyond the view, `end` does. */
export function readFrameHead(view: DataView, start: number): FrameHead {
  const descriptor = view.getUint8(start);
  const isSingle = (descriptor & 0x20) !== 0;
  const sizeBytes = [isSingle ? 1 : 0, 2, 4, 8][descriptor >> 6]!;
  const dictionaryAt = start + 1 + (isSingle ? 0 : 1);
  const sizeAt = dictionaryAt + [0, 1, 2, 4][descriptor & 3]!;
  const end = sizeAt + sizeBytes;
  return {
    hasReservedBit: (descriptor & 8) !== 0,
    hasChecksum: (descriptor & 4) !== 0,
    dictionaryAt,
    sizeAt,
    end,
    size: end > view.byteLength ? -1 : readSize(view, sizeAt, sizeBytes),
  };
}

function readSize(view: DataView, at: number, bytes: number): number {
  switch (bytes) {
    case 0:
      return -1;
    case 1:
      return view.getUint8(at);
    case 2:
      return view.getUint16(at, true) + 256;
    case 4:
      return view.getUint32(at, true);
    default:
      return Number(view.getBigUint64(at, true));
  }
}
