/**
 * How large a body says that it inflates to, which is what it costs: what is compressed counts by that in batches and
 * turns. A body of several gzip members or zstd frames tells only of one, and deflate of none: the encode threads say by how
 * much an audience's bodies were larger than they had claimed, and its next ones count for that much more.
 */
import { frameMagic, mostHeadBytes, readFrameHead } from "./body/zstd-frame.js";
import { codeEncoding, type PendingRequest } from "./request.js";

const gzipLeastBytes = 18;
/** Whoever claims more is refused later; until then it counts as so much. */
const mostBytes = 64 * 1024 * 1024;

/** What tells how large a body is. */
type Claimant = Pick<PendingRequest, "buffer" | "offset" | "length" | "code">;

/** Bytes of a body once it is inflated, or as sent where it does not say. */
export function claimedBytes({ buffer, offset, length, code }: Claimant): number {
  const encoding = codeEncoding(code);
  if (encoding === "gzip" && length >= gzipLeastBytes) {
    // RFC 1952, section 2.3.1: the last four bytes.
    return clamped(length, new DataView(buffer, offset + length - 4, 4).getUint32(0, true));
  }
  if (encoding === "zstd" && length >= mostHeadBytes) {
    return clamped(length, zstdBytes(new DataView(buffer, offset, mostHeadBytes)));
  }
  return length;
}

/** The same for one of an audience whose bodies are so many times as large as they claim. */
export function expectedBytes(request: Claimant, factor: number): number {
  const claimed = claimedBytes(request);
  return factor === 1 || codeEncoding(request.code) === "identity" ? claimed : clamped(claimed, claimed * factor);
}

/** An audience whose compressed bodies were larger than they claimed, and how many times as large. */
export interface Underclaim {
  readonly audience: string | null;
  readonly factor: number;
}

/** What the compressed bodies of a batch claimed, and what they were. */
export class InflatedSizes {
  readonly #sizes = new Map<string | null, { claimed: number; inflated: number }>();

  add(claimant: Claimant, audience: string | null, inflated: number): void {
    if (codeEncoding(claimant.code) === "identity") {
      return;
    }
    const claimed = claimedBytes(claimant);
    const sum = this.#sizes.get(audience);
    if (sum === undefined) {
      this.#sizes.set(audience, { claimed, inflated });
    } else {
      sum.claimed += claimed;
      sum.inflated += inflated;
    }
  }

  underclaims(): Underclaim[] {
    return [...this.#sizes]
      .filter(([, { claimed, inflated }]) => inflated > claimed)
      .map(([audience, { claimed, inflated }]) => ({ audience, factor: inflated / claimed }));
  }
}

const clamped = (least: number, claimed: number): number => Math.max(least, Math.min(claimed, mostBytes));

function zstdBytes(view: DataView): number {
  return view.getUint32(0, true) === frameMagic ? readFrameHead(view, 4).size : 0;
}
